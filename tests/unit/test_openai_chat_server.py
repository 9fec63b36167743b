"""The thinker of `openai_chat` against a server on loopback: streams, cuts, failures; each loses its own reply at most."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from duplex_models.openai_chat.options import parse
from duplex_models.openai_chat.think import RemoteThink

from duplex.payloads import Address, Job, JobId, Message, Pace, Payload, Prompt, Role, StageError, TextDelta
from duplex.stages.contract import PackError
from duplex.units import MonoNs
from tests.unit.openai_chat_server import CEILING_S, FakeChatServer, Reply, Streaming, endless, hello, silent

pytestmark = pytest.mark.protocol
SECRET = "sk-very-secret"
PROMPT = Prompt(messages=(Message(role="user", text="Hi"),))


class Answer:
    """What was emitted for one job."""

    def __init__(self, on_delta: Callable[[int], None] = lambda count: None) -> None:
        self.deltas: list[TextDelta] = []
        self.error: StageError | None = None
        self.ended = threading.Event()
        self.after_end = 0
        self._on_delta = on_delta

    def emit(self, output: Payload | StageError) -> None:
        self.after_end += self.ended.is_set()
        if isinstance(output, StageError):
            self.error = output
        else:
            assert isinstance(output, TextDelta)
            self.deltas.append(output)
            self._on_delta(len(self.deltas))
        if self.error is not None or self.deltas[-1].finish is not None:
            self.ended.set()

    def wait(self) -> Answer:
        assert self.ended.wait(CEILING_S), "the thinker did not end"
        return self

    @property
    def text(self) -> str:
        return "".join(delta.text for delta in self.deltas)


def job(number: int = 1, payload: Payload = PROMPT, session: str = "s") -> Job:
    address = Address(session=session, lane=0, epoch=0)
    return Job(id=JobId(number), stage=Role.THINK, address=address, payload=payload, pace=Pace(since=MonoNs(0)))


Serve = Callable[..., tuple[FakeChatServer, RemoteThink]]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Return a function that starts a server with replies, and a thinker on it."""
    monkeypatch.setenv("TEST_KEY", SECRET)
    stops: list[Callable[[], None]] = []

    def start(*replies: Reply, load: bool = True, **options: Any) -> tuple[FakeChatServer, RemoteThink]:
        server = FakeChatServer(*replies)
        stops.append(server.stop)
        think = RemoteThink(parse({"url": server.url, "model": "m", "key_env": "TEST_KEY"} | options))
        stops.append(think.close)
        if load:
            think.load(lambda line: None)
        return server, think

    yield start
    for stop in reversed(stops):
        stop()


def ask(think: RemoteThink, prompt: Prompt = PROMPT, number: int = 1) -> Answer:
    answer = Answer()
    think.submit(job(number, prompt), answer.emit)
    return answer.wait()


# Replies. ------------------------------------------------------------------------------------------------------------


def test_a_reply_is_streamed_and_its_tokens_are_the_servers_count(serve: Serve) -> None:
    _, think = serve(hello)
    answer = ask(think)
    assert [(delta.text, delta.tokens, delta.finish) for delta in answer.deltas] == [
        ("Hello", 1, None), (" there", 1, None), (".", 1, None), ("", 2, "stop"),
    ]  # fmt: skip


def test_the_request_holds_what_was_configured(serve: Serve) -> None:
    server, think = serve(
        extra_body={"temperature": 0.5},
        tokens_field="max_completion_tokens",
        system_prompt="Be brief.",
        ask_usage=False,
    )
    messages = (Message(role="user", text="Hi"), Message(role="assistant", text=" "), Message(role="user", text="Ho"))
    ask(think, Prompt(messages=messages, tokens_max=17))
    (request,) = server.requests
    assert request.body == {
        "model": "m", "stream": True, "max_completion_tokens": 17, "temperature": 0.5,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}, {"role": "user", "content": "Ho"}],
    }  # fmt: skip
    assert request.request.headers["Authorization"] == f"Bearer {SECRET}"


def test_a_key_goes_bare_into_a_header_of_another_name(serve: Serve) -> None:
    server, think = serve(key_header="api-key")
    ask(think)
    headers = server.requests[0].request.headers
    assert headers["api-key"] == SECRET
    assert "Authorization" not in headers


def test_one_connection_serves_one_turn_after_the_other(serve: Serve) -> None:
    server, think = serve(hello)
    for number in range(3):
        ask(think, number=number)
    assert len(server.connections) == 1


def test_the_bound_on_tokens_makes_a_reply_incomplete(serve: Serve) -> None:
    async def short(answer: Streaming) -> None:
        await answer.begin()
        await answer.delta(content="One two")
        await answer.end("length")

    _, think = serve(short)
    answer = ask(think)
    assert (answer.text, answer.deltas[-1].finish) == ("One two", "length")


def test_thinking_and_tool_calls_are_not_spoken(serve: Serve) -> None:
    async def thoughtful(answer: Streaming) -> None:
        await answer.begin()
        await answer.delta(role="assistant", content="", reasoning_content="Hm.")
        await answer.delta(reasoning="Hm, hm.")
        await answer.delta(content="\n\nYes.")
        await answer.delta(tool_calls=[{"index": 0, "function": {"name": "f", "arguments": "{}"}}])
        await answer.end("tool_calls", tokens=40)

    _, think = serve(thoughtful)
    answer = ask(think)
    assert (answer.text, answer.deltas[-1].finish) == ("Yes.", "stop")
    assert sum(delta.tokens for delta in answer.deltas) == 40


def test_replies_at_once_are_bounded_by_the_connections(serve: Serve) -> None:
    async def slow(answer: Streaming) -> None:
        await asyncio.sleep(0.05)
        await hello(answer)

    server, think = serve(slow, parallel=2)
    answers = [Answer() for _ in range(6)]
    for number, answer in enumerate(answers):
        think.submit(job(number), answer.emit)
    assert [answer.wait().text for answer in answers] == ["Hello there."] * 6
    assert server.running_max == 2


def test_what_is_no_prompt_is_refused_at_once(serve: Serve) -> None:
    server, think = serve()
    for payload in (
        Prompt(messages=()),
        Prompt(messages=PROMPT.messages, reply_so_far="I"),
        TextDelta(text="", tokens=0),
    ):
        answer = Answer()
        think.submit(job(1, payload), answer.emit)
        assert answer.error is not None
        assert answer.error.kind == "refused"
    assert server.requests == []


# Cuts. ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reply", [endless, silent])
@pytest.mark.parametrize("how", ["abort", "release", "close"])
def test_a_cut_closes_the_stream_within_a_second_and_is_silent(serve: Serve, reply: Reply, how: str) -> None:
    server, think = serve(reply)
    begun = threading.Event()
    answer = Answer(on_delta=lambda count: begun.set())
    think.submit(job(7), answer.emit)
    assert begun.wait(CEILING_S)
    cut_at = time.monotonic()
    cuts: dict[str, Callable[[], None]] = {
        "abort": lambda: think.abort(JobId(7)), "release": lambda: think.release("s"), "close": think.close,
    }  # fmt: skip
    cuts[how]()
    emitted = len(answer.deltas)
    assert server.gone.wait(CEILING_S)
    assert server.gone_at - cut_at < 1.0
    assert (len(answer.deltas), answer.ended.is_set()) == (emitted, False)


def test_a_cut_while_the_server_has_not_answered_closes_the_connection_too(serve: Serve) -> None:
    asked = threading.Event()

    async def mute(answer: Streaming) -> None:
        asked.set()
        await asyncio.sleep(CEILING_S)

    server, think = serve(mute)
    think.submit(job(7), Answer().emit)
    assert asked.wait(CEILING_S)
    cut_at = time.monotonic()
    think.abort(JobId(7))
    assert server.gone.wait(CEILING_S)
    assert server.gone_at - cut_at < 1.0


def test_a_cut_from_inside_an_output_lets_no_other_out(serve: Serve) -> None:
    server, think = serve(endless, hello)
    answer = Answer(on_delta=lambda count: think.abort(JobId(7)))
    think.submit(job(7), answer.emit)
    assert server.gone.wait(CEILING_S)
    assert ask(think).text == "Hello there."
    assert len(answer.deltas) == 1


def test_a_cut_leaves_the_other_replies_alone(serve: Serve) -> None:
    async def paced(answer: Streaming) -> None:
        await answer.begin()
        for _ in range(20):
            await answer.delta(content=" a")
            await asyncio.sleep(0.01)
        await answer.end()

    server, think = serve(endless, paced)
    began = threading.Event()
    think.submit(job(1), Answer(on_delta=lambda count: began.set()).emit)
    assert began.wait(CEILING_S)
    other = Answer(on_delta=lambda count: think.abort(JobId(1)))
    think.submit(job(2, session="t"), other.emit)
    assert other.wait().text == "a" + " a" * 19
    assert server.gone.wait(CEILING_S)
    think.abort(JobId(99))


# Failures. -----------------------------------------------------------------------------------------------------------


def refuse(status: int, error: object = None, **headers: str) -> Reply:
    async def reply(answer: Streaming) -> None:
        await answer.error(status, error or {"message": f"{SECRET} and the prompt", "code": "the_code"}, **headers)

    return reply


def sent(data: bytes, hang_up: bool = False) -> Reply:
    async def reply(answer: Streaming) -> None:
        await answer.begin()
        await answer.delta(content="Well")
        await answer.raw(data)
        if hang_up:
            await asyncio.sleep(0.05)
            answer.hang_up()

    return reply


async def not_a_stream(answer: Streaming) -> None:
    await answer.begin(content_type="application/json")
    await answer.raw(b'{"choices": []}')


async def nothing(answer: Streaming) -> None:
    answer.hang_up()


FAILURES: list[tuple[Reply, str, str]] = [
    (refuse(401), "unavailable", r"refuses the key.*\(401, the_code\)"),
    (refuse(403), "unavailable", "refuses the key"),
    (refuse(404, {"code": None, "type": "not_found"}), "unavailable", r"no model m, or not at .*\(404, not_found\)"),
    (refuse(429), "refused", "limits the rate"),
    (refuse(400, {"code": "context_length_exceeded"}), "refused", "400, context_length_exceeded"),
    (refuse(400, {"code": f"{SECRET} is no code"}), "refused", r"refuses the request \(400\)"),
    (refuse(500), "unavailable", "failed .500"),
    (refuse(503, "text"), "unavailable", r"failed \(503\)"),
    (refuse(307, Location="http://127.0.0.1:9/"), "unavailable", "answers 307"),
    (sent(b"data: {broken\n\n"), "failed", "no chat completion"),
    (sent(b'data: {"error": {"code": "overloaded"}}\n\n'), "unavailable", r"middle of its reply \(overloaded\)"),
    (sent(b""), "failed", "without saying why"),
    (sent(b"data: [DONE]\n\n"), "failed", "without saying why"),
    (sent(b"", hang_up=True), "failed", "connection was lost"),
    (nothing, "failed", "connection was lost"),
    (not_a_stream, "failed", "does not stream"),
    (silent, "timeout", "silent for too long"),
    (sent(b'data: {"choices": [{"delta": {}, "finish_reason": "content_filter"}]}\n\n'), "refused", "content filter"),
]


@pytest.mark.parametrize(("reply", "kind", "says"), FAILURES)
def test_a_failure_loses_its_own_reply_and_says_why(
    serve: Serve, caplog: pytest.LogCaptureFixture, reply: Reply, kind: str, says: str
) -> None:
    caplog.set_level(logging.DEBUG)
    replies = (reply, reply, hello) if reply is nothing else (reply, hello)  # what never got an answer is asked again
    server, think = serve(*replies, silence_timeout_s=0.3)
    answer = ask(think)
    assert answer.error is not None
    assert answer.error.kind == kind
    assert answer.error.reason.startswith("thinker: ")
    assert SECRET not in answer.error.reason
    assert "prompt" not in answer.error.reason
    assert re.search(says, answer.error.reason), answer.error.reason
    assert ask(think, number=2).text == "Hello there."
    assert answer.after_end == 0
    assert SECRET not in caplog.text


def test_a_server_that_never_begins_is_given_up(serve: Serve) -> None:
    async def keeps_alive(answer: Streaming) -> None:
        await answer.begin()
        while True:
            await answer.raw(b": still here\n\n")
            await answer.delta(reasoning_content="hm")
            await asyncio.sleep(0.02)

    server, think = serve(keeps_alive, hello, first_text_timeout_s=0.4)
    answer = ask(think)
    assert answer.error is not None
    assert answer.error.kind == "timeout"
    assert server.gone.wait(CEILING_S)
    assert ask(think, number=2).text == "Hello there."


def test_a_kept_connection_that_has_died_is_replaced(serve: Serve) -> None:
    _, think = serve(hello, nothing, hello)
    assert [ask(think, number=number).text for number in (1, 2)] == ["Hello there."] * 2


def test_a_server_that_is_not_there_fails_the_reply(serve: Serve) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        _, think = serve(url=f"http://127.0.0.1:{closed.getsockname()[1]}/v1", check=False)
        answer = ask(think)
    assert answer.error is not None
    assert answer.error.kind == "unavailable"
    assert "cannot connect" in answer.error.reason


def test_a_model_that_asks_for_a_tool_alone_fails(serve: Serve) -> None:
    async def tool(answer: Streaming) -> None:
        await answer.begin()
        await answer.delta(tool_calls=[{"index": 0}])
        await answer.end("tool_calls")

    _, think = serve(tool)
    answer = ask(think)
    assert answer.error is not None
    assert "asked for a tool" in answer.error.reason


# The start. ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("models", "says"),
    [
        (["a", "b"], "has no m; it has a, b"),
        ([], "it has none"),
        (list("abcdefghij"), "g, h, … "),
        (401, r"refuses the key.*\(401, told_so\)"),
        (500, "failed .500"),
    ],
)
def test_the_start_says_what_is_wrong(serve: Serve, models: list[str] | int, says: str) -> None:
    server, think = serve(load=False)
    server.models = models
    with pytest.raises(PackError, match=says):
        think.load(lambda line: None)


def test_the_start_fails_where_nobody_listens(serve: Serve) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        _, think = serve(load=False, url=f"http://127.0.0.1:{closed.getsockname()[1]}/v1")
        with pytest.raises(PackError, match="cannot connect"):
            think.load(lambda line: None)


@pytest.mark.parametrize("models", [404, 405])
def test_a_server_without_a_list_of_models_is_taken_at_its_word(serve: Serve, models: int) -> None:
    server, think = serve(load=False)
    server.models = models
    lines: list[str] = []
    think.load(lines.append)
    assert lines == [f"thinker: m at {server.url}"]
    assert ask(think).text == "Hello there."
