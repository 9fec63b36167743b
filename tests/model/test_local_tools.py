"""Function calls of the default thinker with real weights: they always parse and keep to the schema, and can be aborted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duplex.payloads import Call, Message, Payload, Prompt, StageError, Tool, Toolset
from loadgen.jobs import job
from tests.model.harness import CEILING_S
from tests.thinking import Given

pytestmark = pytest.mark.model
LIGHT = {
    "type": "object",
    "properties": {"room": {"enum": ["kitchen", "bedroom"]}, "level": {"type": "integer"}},
    "required": ["room", "level"],
}
FREE = {
    "type": "object",
    "properties": {
        "note": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 12}},
        "place": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
        "again": {"type": "boolean"},
    },
    "required": ["note", "tags", "place", "again"],
}
TOOLS = (
    Tool(name="set_light", description="Set the light in a room.", parameters=json.dumps(LIGHT)),
    Tool(name="keep_note", description="Keep a note.", parameters=json.dumps(FREE)),
    Tool(name="stop_music", description="", parameters='{"type":"object","properties":{}}'),
)


def arguments_of(given: Given) -> Any:
    return json.loads(given.arguments)


def ask(think: Any, text: str, **toolset: Any) -> Given:
    return answer(think, (Message(role="user", text=text),), Toolset(tools=TOOLS, **toolset))


def answer(think: Any, messages: tuple[Message, ...], toolset: Toolset) -> Given:
    given = Given()
    think.submit(job(Prompt(messages=messages, toolset=toolset), "tools"), given.emit)
    assert given.ended.wait(CEILING_S)
    assert given.error is None
    return given


def test_the_light_is_set_as_it_was_said(think: Any) -> None:
    given = ask(think, "Set the light in the kitchen to 7.", choice="named", named="set_light")
    assert (given.calls[0].name, arguments_of(given)["room"]) == ("set_light", "kitchen")
    assert isinstance(arguments_of(given)["level"], int)
    assert [delta.last for delta in given.calls].index(True) == len(given.calls) - 1
    assert given.text == ""


@pytest.mark.parametrize("text", ["Note that the key is under the mat.", '🎵 Blah, blah: {"a": 1}'])
def test_a_call_that_has_to_be_made_keeps_to_its_schema_whatever_was_said(think: Any, text: str) -> None:
    given = ask(think, text, choice="named", named="keep_note")
    assert arguments_of(given).keys() == {"note", "tags", "place", "again"}
    assert isinstance(arguments_of(given)["note"], str) and isinstance(arguments_of(given)["again"], bool)
    assert isinstance(arguments_of(given)["place"]["x"], int | float)
    assert all(isinstance(tag, str) for tag in arguments_of(given)["tags"])


def test_a_function_without_arguments_and_one_that_the_model_chooses_are_called(think: Any) -> None:
    assert ask(think, "Hello", choice="named", named="stop_music").arguments == "{}"
    assert ask(think, "Hello", choice="required").calls[-1].last


def test_no_call_is_made_where_none_may_be_and_behind_a_result(think: Any) -> None:
    assert not ask(think, "Set the light in the kitchen to 7.", choice="none").calls
    history = (
        Message(role="user", text="Set the light in the kitchen to 7."),
        Message(role="assistant", text="", calls=(Call(id="c", name="set_light", arguments='{"room":"kitchen"}'),)),
        Message(role="tool", text="The light is on.", call_id="c"),
    )
    given = answer(think, history, Toolset(tools=TOOLS))
    assert given.text and not given.calls
    assert "{" not in given.text


def test_an_abort_stops_a_call_that_is_being_written(think: Any) -> None:
    given = Given()
    prompt = Prompt(
        messages=(Message(role="user", text="Note that the key is under the mat."),),
        toolset=Toolset(tools=TOOLS, choice="named", named="keep_note"),
    )
    running = job(prompt, "tools")

    def emit(output: Payload | StageError) -> None:
        given.emit(output)
        if given.calls:
            think.abort(running.id)

    think.submit(running, emit)
    assert given.called.wait(CEILING_S)
    assert ask(think, "Hello", choice="named", named="stop_music").arguments == "{}"
    assert len(given.calls) == 1
    assert not given.ended.is_set()


def test_words_of_a_schema_that_the_engine_does_not_know_are_left_out(think: Any) -> None:
    parameters = {
        "type": "object",
        "properties": {"a": {"type": "strung", "not": {}, "pattern": "(?<=x)"}},
        "required": ["a"],
    }
    odd = Tool(name="odd", description="Odd.", parameters=json.dumps(parameters))
    given = answer(think, (Message(role="user", text="Hello"),), Toolset(tools=(odd,), choice="required"))
    assert arguments_of(given).keys() == {"a"}
