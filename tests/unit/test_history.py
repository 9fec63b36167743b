"""The conversation as a thinker reads it: each call is followed by its result, wherever that came."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.payloads import Call, Message
from duplex.session.history import PENDING, History

pytestmark = pytest.mark.unit
A, B = Call(id="a", name="f", arguments="{}"), Call(id="b", name="g", arguments='{"x":1}')


def tool(call: Call, text: str) -> Message:
    return Message(role="tool", text=text, call_id=call.id)


def test_text_and_calls_of_one_reply_are_one_message() -> None:
    history = History("be kind")
    history.said("user", "How warm is it?")
    history.said("assistant", "I look.")
    history.called(A)
    history.called(B)
    history.gave("b", "2")
    history.gave("a", "1")
    assert history.messages() == (
        Message(role="system", text="be kind"),
        Message(role="user", text="How warm is it?"),
        Message(role="assistant", text="I look.", calls=(A, B)),
        tool(A, "1"),
        tool(B, "2"),
    )


def test_a_call_that_knows_the_result_of_another_is_a_message_of_its_own() -> None:
    history = History("")
    history.called(A)
    history.gave("a", "1")
    history.called(B)
    assert history.messages() == (
        Message(role="assistant", text="", calls=(A,)),
        tool(A, "1"),
        Message(role="assistant", text="", calls=(B,)),
        tool(B, PENDING),
    )


def test_a_late_result_stands_where_it_came_with_its_call_again() -> None:
    history = History("")
    history.called(A)
    history.said("user", "Well?")
    history.gave("a", "1")
    history.gave("a", "more")
    assert history.messages() == (
        Message(role="assistant", text="", calls=(A,)),
        tool(A, PENDING),
        Message(role="user", text="Well?"),
        Message(role="assistant", text="", calls=(A,)),
        tool(A, "1"),
        Message(role="assistant", text="", calls=(A,)),
        tool(A, "more"),
    )


def test_a_result_whose_call_is_gone_is_told_in_words() -> None:
    history = History("")
    history.gave("gone", "1")
    assert history.messages() == (Message(role="user", text="A function gave this result: 1"),)


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "call", "result"]), st.integers(0, 3)), max_size=20))
def test_whatever_came_in_whatever_order_every_call_is_followed_by_one_result(items: list[tuple[str, int]]) -> None:
    history, made = History(""), set()
    results = 0
    for kind, number in items:
        if kind == "call" and number not in made:
            made.add(number)
            history.called(Call(id=str(number), name="f", arguments="{}"))
        elif kind == "result" and number in made:
            results += 1
            history.gave(str(number), f"result {results}")
        elif kind in ("user", "assistant"):
            history.said(kind, "words")
    messages = history.messages()
    for i, message in enumerate(messages):
        answers = [m.call_id for m in messages[i + 1 : i + 1 + len(message.calls)] if m.role == "tool"]
        assert sorted(answers, key=str) == sorted(call.id for call in message.calls)
        if message.role == "tool":
            assert messages[i - 1].role == "tool" or messages[i - 1].calls
    told = [m.text for m in messages if m.role == "tool" and m.text != PENDING]
    assert sorted(told) == sorted(f"result {n + 1}" for n in range(results)), "each result is told once"
