"""The pure parts of the pack `openai_chat`: options, keys, events, replies, what is spoken."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from duplex_models.openai_chat import OpenAiChatOptions, create
from duplex_models.openai_chat.options import parse
from duplex_models.openai_chat.spoken import SpokenText
from hypothesis import given
from hypothesis import strategies as st

from duplex.engines import EngineError
from duplex.engines.openai_chat import ChatEnd, ChatError, ReplyReader
from duplex.engines.sse import SseReader
from duplex.stages.contract import PackError, Role, is_engine
from duplex.stages.graph import build_graph

pytestmark = pytest.mark.unit
SERVER = {"url": "http://127.0.0.1:9/v1", "model": "m"}


# Options. ------------------------------------------------------------------------------------------------------------


def test_the_pack_fits_the_stage_graph_and_its_thinker_is_not_pausable() -> None:
    graph = build_graph(create({**SERVER, "parallel": 3, "sessions": 2}, 2))
    assert set(graph.nodes) == set(Role) - {Role.TICK, Role.READ}
    thinker = graph.nodes[Role.THINK]
    assert is_engine(thinker)
    assert (thinker.spec.pausable, thinker.spec.batch_max, graph.pack.sessions_max) == (False, 3, 2)
    assert "model m" in graph.pack.notice


def test_the_pack_is_an_entry_point() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["duplex.models"]["openai_chat"] == "duplex_models.openai_chat:create"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"model": "m"}, r"options\.url: Field required"),
        ({"url": "http://h/v1"}, r"options\.model: Field required"),
        ({**SERVER, "url": "ftp://h"}, r"options\.url: .*http://HOST"),
        ({**SERVER, "url": "h:80"}, r"options\.url"),
        ({**SERVER, "url": "http://u:secret@h/v1"}, "takes no user, password"),
        ({**SERVER, "url": "http://h/v1?key=secret"}, "takes no user, password"),
        ({**SERVER, "url": "http://h/v1/chat/completions"}, "before /chat/completions"),
        ({**SERVER, "extra_body": {"stream": False, "n": 2}}, r"extra_body: .*n, stream"),
        ({**SERVER, "key_env": "A", "key_file": "b"}, "give one of them"),
        ({**SERVER, "key_header": "x y"}, "key_header"),
        ({**SERVER, "parallel": 0}, "parallel"),
        ({**SERVER, "api_key": "secret"}, "api_key"),
        ({**SERVER, "local": {"speed": 1}}, r"model\.options\.local\.speed"),
        ({**SERVER, "local": {"whisper_threads": 9}}, r"model\.options\.local\.whisper_threads"),
        ({**SERVER, "key_env": "DUPLEX_TEST_NO_SUCH_KEY"}, "DUPLEX_TEST_NO_SUCH_KEY is not set"),
        ({**SERVER, "key_file": "/no/such/file"}, "/no/such/file cannot be read"),
    ],
)
def test_a_bad_option_is_named_and_no_secret_shown(options: dict[str, Any], says: str) -> None:
    with pytest.raises(PackError, match=says) as refused:
        create(options, 2)
    assert "secret" not in str(refused.value)


def test_a_key_comes_from_the_environment_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", "k-1")
    file = tmp_path / "key"
    file.write_text("k-2\n")
    assert parse({**SERVER, "key_env": "TEST_KEY"}).chat().key == "k-1"
    assert parse({**SERVER, "key_file": str(file)}).chat().key == "k-2"
    assert parse(SERVER).chat().key is None


@pytest.mark.parametrize("key", ["", " \n", "two words", "line\nbreak", "cl\u00e9"])
def test_what_cannot_be_a_key_stops_the_start_and_is_not_shown(tmp_path: Path, key: str) -> None:
    file = tmp_path / "key"
    file.write_text(key)
    with pytest.raises(PackError, match="cannot be a key") as refused:
        parse({**SERVER, "key_file": str(file)}).chat()
    assert not key.strip() or key not in str(refused.value)


def test_settings_and_options_never_print_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", "k-secret")
    options = parse({**SERVER, "key_env": "TEST_KEY"})
    assert "k-secret" not in repr(options) + repr(options.chat())


def test_the_base_url_has_no_slash_at_its_end() -> None:
    assert OpenAiChatOptions(url="https://h/v1/", model="m").url == "https://h/v1"


# Events. -------------------------------------------------------------------------------------------------------------


def test_events_have_comments_many_lines_and_both_line_ends() -> None:
    stream = b": hello\n\ndata: a\r\n\r\nid: 3\ndata:b\ndata:  c\n\nevent: x\n\ndata: unfinished"
    assert SseReader().feed(stream) == ["a", "b\n c"]


@given(st.data())
def test_any_chunking_of_a_stream_gives_the_same_events(data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.text(alphabet="aé😀 :{}", min_size=1), max_size=5))
    stream = b"".join(f"data: {text}\r\n\r\n".encode() for text in texts)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=6)))
    reader = SseReader()
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert [event for piece in pieces for event in reader.feed(piece)] == texts


@pytest.mark.parametrize("stream", [b"data: " + b"x" * 200, b"data: 90 bytes" * 7 + b"\ndata: " + b"y" * 60 + b"\n"])
def test_an_endless_event_is_refused(stream: bytes) -> None:
    with pytest.raises(EngineError, match="longer than 100 bytes"):
        SseReader(bytes_max=100).feed(stream)


# Replies. ------------------------------------------------------------------------------------------------------------


def event(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    """Return one event of a stream."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return f"data: {json.dumps({'object': 'chat.completion.chunk', 'choices': choices} | more)}\n\n".encode()


def test_reasoning_and_tool_calls_are_not_text_and_a_refusal_is() -> None:
    reader = ReplyReader()
    assert reader.feed(event({"role": "assistant", "content": ""}) + event({"reasoning_content": "hm"})) == []
    assert reader.feed(event({"reasoning": "hm"}) + event({"tool_calls": [{"index": 0}], "content": None})) == []
    assert not reader.spoke
    assert reader.feed(event({"content": "Yes"}) + event({"refusal": "No"})) == ["Yes", "No"]
    assert reader.spoke


def test_a_reply_ends_with_its_reason_and_the_servers_count() -> None:
    reader = ReplyReader()
    reader.feed(event({"content": "Yes"}) + event({}, "length"))
    assert not reader.complete
    details = {"cached_tokens": 4}
    reader.feed(event(usage={"completion_tokens": 7, "prompt_tokens": 9, "prompt_tokens_details": details}))
    assert reader.complete
    assert reader.end() == ChatEnd(finish="length", completion_tokens=7, prompt_tokens=9, cached_tokens=4)


def test_a_reply_without_a_count_ends_at_done_or_at_the_streams_end() -> None:
    for ending in (b"data: [DONE]\n\n", b""):
        reader = ReplyReader()
        reader.feed(event({"content": "Yes"}, "stop"))
        assert not reader.complete
        reader.feed(ending)
        assert reader.complete
        assert reader.end() == ChatEnd(finish="stop", completion_tokens=None)


def test_other_choices_are_left_out() -> None:
    other = b'data: {"choices": [{"index": 1, "delta": {"content": "B"}}, {"index": 0, "delta": {"content": "A"}}]}\n\n'
    assert ReplyReader().feed(other) == ["A"]


@pytest.mark.parametrize(
    ("stream", "says"),
    [
        (b"data: {\n\n", "no chat completion"),
        (b"data: []\n\n", "no chat completion"),
        (b'data: {"choices": [{"delta": {"content": 3}}]}\n\n', "no chat completion"),
        (
            b'data: {"error": {"message": "prompt: secret", "code": "overloaded"}}\n\n',
            r"middle of its reply \(overloaded\)",
        ),
        (b'data: {"error": "secret"}\n\n', "middle of its reply"),
    ],
)
def test_what_is_no_completion_is_an_error_without_the_servers_words(stream: bytes, says: str) -> None:
    with pytest.raises(ChatError, match=says) as failed:
        ReplyReader().feed(stream)
    assert "secret" not in str(failed.value)


def test_a_stream_that_ends_before_its_reply_is_an_error() -> None:
    reader = ReplyReader()
    reader.feed(event({"content": "Yes"}))
    reader.feed(b"")
    assert reader.complete
    with pytest.raises(ChatError, match="without saying why"):
        reader.end()


# What is spoken. -----------------------------------------------------------------------------------------------------

SPOKEN = [
    ("Hello there.", "Hello there."),
    ("\n\n  Hello there.\n\n", "Hello there."),
    ("One. \n\nTwo.", "One. \n\nTwo."),
    ("<think>so\n\n</think>\n\nHello.", "Hello."),
    (" <think>a</think> <think>b</think>Hello.", "Hello."),
    ("A <think> in the middle.", "A <think> in the middle."),
    ("<thing> is a word.", "<thing> is a word."),
    ("<thi", "<thi"),
    ("<think>never closed", ""),
    (" \n ", ""),
]


@pytest.mark.parametrize(("written", "said"), SPOKEN)
@given(data=st.data())
def test_what_is_spoken_does_not_depend_on_the_chunking(written: str, said: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(written)))))
    spoken = SpokenText()
    pieces = [written[a:b] for a, b in zip([0, *cuts], [*cuts, len(written)], strict=True)]
    assert "".join(map(spoken.take, pieces)) + spoken.finish() == said


def test_a_space_behind_a_sentence_is_given_at_once_because_it_ends_a_clause() -> None:
    assert SpokenText().take("Hello. ") == "Hello. "
