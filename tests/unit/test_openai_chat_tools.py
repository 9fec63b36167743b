"""Function calls of `openai_chat`: the request's members, the stream's pieces, and what the thinker makes of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from duplex_models.openai_chat import create
from duplex_models.openai_chat.messages import request_messages, request_tools
from duplex_models.openai_chat.options import parse
from duplex_models.openai_chat.think import RemoteThink

from duplex.engines.openai_chat import ChatCall, ChatError, ReplyReader
from duplex.payloads import Call, CallDelta, Job, Message, Payload, Prompt, StageError, TextDelta, Tool, Toolset
from loadgen.jobs import job
from tests.thinking import Given
from tests.unit.openai_chat_server import CEILING_S, FakeChatServer, Reply, Streaming, hello
from tests.unit.test_openai_chat import event

pytestmark = pytest.mark.protocol
WEATHER = Tool(name="get_weather", description="The weather.", parameters='{"type":"object","properties":{}}')
OFFERED = Toolset(tools=(WEATHER,))
HELLO = Message(role="user", text="Hi")


def call(index: int, name: str | None = None, arguments: str | None = None, id: str | None = None) -> dict[str, Any]:  # noqa: A002
    """Return one piece of a call as servers send it."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {"index": index, "function": function} | ({"id": id, "type": "function"} if id else {})


# The request. --------------------------------------------------------------------------------------------------------


def test_calls_and_results_become_the_chats_own_messages() -> None:
    first, second = Call(id="call_0123", name="a", arguments="{}"), Call(id="x" * 90, name="b", arguments='{"n":1}')
    history = (
        HELLO,
        Message(role="assistant", text="One moment.", calls=(first, second)),
        Message(role="tool", text="yes", call_id=first.id),
        Message(role="tool", text="", call_id=second.id),
        Message(role="assistant", text=" "),
        Message(role="assistant", text="", calls=(first,)),
        Message(role="tool", text="later", call_id=first.id),
    )
    assert request_messages(history) == [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant", "content": "One moment.",
            "tool_calls": [
                {"id": "call00001", "type": "function", "function": {"name": "a", "arguments": "{}"}},
                {"id": "call00002", "type": "function", "function": {"name": "b", "arguments": '{"n":1}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "call00001", "content": "yes"},
        {"role": "tool", "tool_call_id": "call00002", "content": ""},
        {
            "role": "assistant", "content": None,
            "tool_calls": [{"id": "call00003", "type": "function", "function": {"name": "a", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "call00003", "content": "later"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("toolset", "choice"),
    [
        (OFFERED, "auto"),
        (Toolset(tools=(WEATHER,), choice="none"), "none"),
        (Toolset(tools=(WEATHER,), choice="required"), "required"),
        (
            Toolset(tools=(WEATHER,), choice="named", named="get_weather"),
            {"type": "function", "function": {"name": "get_weather"}},
        ),
    ],
)
def test_tools_and_their_choice_are_sent(toolset: Toolset, choice: Any) -> None:
    function = {
        "name": "get_weather",
        "description": "The weather.",
        "parameters": {"type": "object", "properties": {}},
    }
    assert request_tools(toolset) == {"tools": [{"type": "function", "function": function}], "tool_choice": choice}


def test_without_tools_nothing_is_said_of_them_and_one_call_at_a_time_only_where_it_is_asked_for() -> None:
    assert request_tools(Toolset(choice="required")) == {}
    assert request_tools(Toolset(tools=(WEATHER,), parallel=False))["parallel_tool_calls"] is False


def test_a_server_without_tools_can_be_named_as_such() -> None:
    server = {"url": "http://127.0.0.1:9/v1", "model": "m"}
    assert create(server, 2).calls
    assert not create(server | {"tools": False}, 2).calls


# The stream. ---------------------------------------------------------------------------------------------------------


def test_pieces_of_several_calls_are_told_apart() -> None:
    reader = ReplyReader()
    pieces = reader.feed(event({"content": "Wait.", "tool_calls": [call(0, "a", "", "id1")]}))
    pieces += reader.feed(event({"tool_calls": [call(0, None, '{"x"'), call(2, "b", "{", "id2")]}))
    pieces += reader.feed(event({"tool_calls": [call(0, None, ":1}"), call(2, None, "}")]}) + event({}, "tool_calls"))
    assert pieces[0] == "Wait."
    calls = [piece for piece in pieces if isinstance(piece, ChatCall)]
    assert "".join(piece.arguments for piece in calls if piece.index == 0) == '{"x":1}'
    assert "".join(piece.arguments for piece in calls if piece.index == 1) == "{}"
    assert {(piece.index, piece.name) for piece in calls} == {(0, "a"), (1, "b")}
    assert reader.spoke


def test_a_server_that_numbers_no_calls_tells_them_apart_by_their_ids() -> None:
    pieces = ReplyReader().feed(
        event({"tool_calls": [call(0, "a", "{}", "id1")]}) + event({"tool_calls": [call(0, "b", "{}", "id2")]})
    )
    assert pieces == [ChatCall(index=0, name="a", arguments="{}"), ChatCall(index=1, name="b", arguments="{}")]


def test_a_call_without_a_name_is_no_call() -> None:
    with pytest.raises(ChatError, match="without a name"):
        ReplyReader().feed(event({"tool_calls": [call(0, None, "{}")]}))


# The thinker. --------------------------------------------------------------------------------------------------------


class Rig:
    """A thinker and its server."""

    def __init__(self) -> None:
        self.server = FakeChatServer(hello)
        self.think = RemoteThink(parse({"url": self.server.url, "model": "m", "first_text_timeout_s": 5.0}))
        self.think.load(lambda line: None)
        self._job: Job

    def start(self, reply: Reply, toolset: Toolset = OFFERED) -> Given:
        self.server.replies.clear()
        self.server.replies.append(reply)
        given = Given()
        self._job = job(Prompt(messages=(HELLO,), toolset=toolset))
        self.think.submit(self._job, given.emit)
        return given

    def ask(self, reply: Reply, toolset: Toolset = OFFERED) -> list[Payload | StageError]:
        given = self.start(reply, toolset)
        assert given.ended.wait(CEILING_S)
        return given.outputs

    def cut(self) -> None:
        self.think.abort(self._job.id)


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.think.close()
    made.server.stop()


def calling(finish: str = "tool_calls") -> Reply:
    async def reply(answer: Streaming) -> None:
        await answer.begin()
        await answer.delta(content="One moment.")
        await answer.delta(tool_calls=[call(0, "get_weather", "", "a")])
        await answer.delta(tool_calls=[call(0, None, '{"city":"Paris"}')])
        await answer.delta(tool_calls=[call(1, "get_weather", "{}", "b")])
        await answer.end(finish, tokens=30)

    return reply


@pytest.mark.parametrize("finish", ["tool_calls", "stop"])
def test_text_is_given_then_the_calls_and_all_are_complete_at_the_end(rig: Rig, finish: str) -> None:
    outputs = rig.ask(calling(finish))
    name = "get_weather"
    assert outputs == [
        TextDelta(text="One moment.", tokens=1),
        CallDelta(index=0, name=name, arguments="", tokens=1),
        CallDelta(index=0, name=name, arguments='{"city":"Paris"}', tokens=1),
        CallDelta(index=1, name=name, arguments="{}", tokens=1),
        CallDelta(index=0, name=name, arguments="", tokens=0, last=True),
        CallDelta(index=1, name=name, arguments="", tokens=0, last=True),
        TextDelta(text="", tokens=26, finish="stop", prompt_tokens=1),
    ]
    assert rig.server.requests[-1].body["tool_choice"] == "auto"
    assert rig.server.requests[-1].body["tools"][0]["function"]["name"] == name


def test_calls_of_a_reply_over_its_tokens_are_not_complete(rig: Rig) -> None:
    outputs = rig.ask(calling("length"))
    assert not any(isinstance(output, CallDelta) and output.last for output in outputs)
    assert outputs[-1] == TextDelta(text="", tokens=26, finish="length", prompt_tokens=1)


def test_a_call_that_nobody_offered_is_left_out_beside_words(rig: Rig) -> None:
    outputs = rig.ask(calling(), Toolset(tools=(WEATHER,), choice="none"))
    assert outputs == [
        TextDelta(text="One moment.", tokens=1),
        TextDelta(text="", tokens=29, finish="stop", prompt_tokens=1),
    ]


def test_a_cut_closes_the_stream_of_a_call(rig: Rig) -> None:
    async def slowly(answer: Streaming) -> None:
        await answer.begin()
        await answer.delta(tool_calls=[call(0, "get_weather", '{"city":', "a")])
        while True:
            await answer.raw(b": still thinking\n\n")
            await asyncio.sleep(0.02)

    given = rig.start(slowly)
    assert given.called.wait(CEILING_S)
    cut_at = time.monotonic()
    rig.cut()
    assert rig.server.gone.wait(CEILING_S)
    assert rig.server.gone_at - cut_at < 2.0
    assert len(given.outputs) == 1
