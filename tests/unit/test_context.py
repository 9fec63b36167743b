"""What of a conversation a prompt is made from: whole turns, steps far apart, and never more than fits."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.payloads import Message
from duplex.session.context import ContextBound, ContextWindow, estimate_tokens
from duplex.session.conversation import Item, Role, messages_of

pytestmark = pytest.mark.unit
ROOM = 200
WORDS = "forty letters of words that someone said "
"""13 tokens, 21 as a message."""


def window(room: int = ROOM, prompt_max: int = 10_000, history_max: int | None = None) -> ContextWindow:
    return ContextWindow(ContextBound(prompt_max=prompt_max, history_max=room), history_max, 0.25)


def item(number: int, role: Role, text: str = WORDS) -> Item:
    return Item(id=f"i{number}", role=role, modality="text", text=f"{text}{number}" if text else text)


def turns(count: int) -> list[Item]:
    return [item(n, "assistant" if n % 2 else "user") for n in range(2 * count)]


def tokens(messages: Sequence[Message]) -> int:
    return sum(estimate_tokens(message.text) + 8 for message in messages if message.role != "system")


def test_what_fits_stays_whole_and_without_a_bound_all_does() -> None:
    assert window().messages(turns(4), "be kind") == messages_of(turns(4), "be kind")
    unbound = ContextWindow(None, 100, 0.25)
    assert unbound.messages(turns(90), "") == messages_of(turns(90), "")
    assert unbound.step(turns(90), "") is None


def test_whole_oldest_turns_go_and_the_instructions_stay() -> None:
    items = [Item(id="s", role="system", modality="text", text="The user is called Ada."), *turns(30), item(99, "user")]
    kept = window().messages(items, "be kind")
    assert kept[:2] == (Message(role="system", text="be kind"), Message(role="system", text="The user is called Ada."))
    assert kept[2].role == "user"
    assert kept == messages_of([items[0], *items[len(items) - len(kept) + 2 :]], "be kind")
    assert tokens(kept) <= ROOM / 4


def test_looking_changes_nothing_and_a_step_says_what_it_left_out() -> None:
    trimmed, items = window(), [*turns(30), item(99, "user")]
    first, again = trimmed.messages(items, ""), trimmed.messages(items, "")
    step = trimmed.step(items, "")
    assert first == again == trimmed.messages(items, "")
    assert step is not None
    assert items[step.items].id == step.first_item_id
    assert first == messages_of(items[step.items :], "")
    assert trimmed.step(items, "") is None


def test_the_prompt_of_a_growing_conversation_keeps_its_beginning_for_many_turns() -> None:
    trimmed, items, firsts = window(room=1000), [], []
    for n in range(200):
        items += [item(2 * n, "user")]
        prompt = trimmed.messages(items, "be kind")
        assert tokens(prompt) <= 1000
        trimmed.step(items, "be kind")
        firsts.append(prompt[1])
        items += [item(2 * n + 1, "assistant")]
    steps = sum(before != after for before, after in itertools.pairwise(firsts))
    assert 5 <= steps <= 12


def test_an_answer_that_nobody_heard_does_not_part_two_turns() -> None:
    items = [item(0, "user"), item(1, "assistant"), item(2, "user"), item(3, "assistant", ""), item(4, "user")]
    assert window(room=90).messages(items, "") == messages_of(items, "")
    assert window(room=80).messages(items, "") == (Message(role="user", text=f"{WORDS}2 {WORDS}4"),)


def test_a_run_of_turns_without_an_answer_loses_its_oldest_items() -> None:
    items = [item(n, "user") for n in range(60)]
    (message,) = window().messages(items, "")
    assert message.text.endswith("59")
    assert tokens([message]) <= ROOM
    assert f"{WORDS}0 " not in message.text


def test_a_monologue_is_cut_at_its_beginning_from_a_word_on_and_stays_so_cut() -> None:
    said = " ".join(f"word{n}" for n in range(3000))
    items = [item(0, "user"), item(1, "assistant"), Item(id="long", role="user", modality="audio", text=said)]
    trimmed = window()
    (message,) = trimmed.messages(items, "")
    assert said.endswith(" " + message.text)
    assert message.text.startswith("word")
    assert ROOM * 0.8 <= tokens([message]) <= ROOM
    trimmed.step(items, "")
    assert trimmed.messages([*items, item(3, "assistant"), item(4, "user")], "")[-1].text.endswith("4")


def test_a_script_without_spaces_is_cut_between_letters() -> None:
    said = "今日は良い天気です" * 300 + " ええ"
    (message,) = window().messages([Item(id="long", role="user", modality="audio", text=said)], "")
    assert said.endswith(message.text)
    assert ROOM * 0.8 <= tokens([message]) <= ROOM


def test_long_instructions_leave_the_conversation_less_room_but_some() -> None:
    short = window(prompt_max=400).messages([*turns(8), item(99, "user")], "x" * 900)
    assert short[0].text == "x" * 900
    assert tokens(short) <= 92
    assert window(prompt_max=400).messages([item(0, "user", "hello ")], "x" * 9000)[1].text == "hello 0"


def test_the_configuration_may_ask_for_less_than_the_pack_and_not_for_more() -> None:
    items = [*turns(30), item(99, "user")]
    assert window(history_max=100).messages(items, "") == window(room=100).messages(items, "")
    assert window(history_max=9000).messages(items, "") == window().messages(items, "")


def test_the_clients_deletion_of_the_first_item_begins_anew_and_still_fits() -> None:
    trimmed, items = window(), [*turns(30), item(99, "user")]
    step = trimmed.step(items, "")
    assert step is not None
    del items[step.items]
    assert tokens(trimmed.messages(items, "")) <= ROOM


_ROLES: list[Role] = ["user", "assistant", "system"]


@given(
    st.lists(st.tuples(st.sampled_from(_ROLES), st.integers(0, 2000)), min_size=1, max_size=60),
    st.integers(64, 400),
)
def test_whatever_is_said_a_prompt_fits_and_ends_with_what_was_said_last(
    said: list[tuple[Role, int]], room: int
) -> None:
    trimmed, items = window(room), [Item(id="head", role="user", modality="text", text="hi")]
    for n, (role, length) in enumerate(said):
        items.append(item(n, role, "ab " * (length // 3)))
        prompt = trimmed.messages(items, "be kind")
        assert prompt[0].text == "be kind"
        assert sum(estimate_tokens(message.text) + 8 for message in prompt[1:]) <= room
        if items[-1].text:
            assert prompt[-1].text[-3:] == (items[-1].text or "")[-3:]
        trimmed.step(items, "be kind")
        assert trimmed.messages(items, "be kind") == prompt


def test_a_long_result_of_a_function_loses_its_end_and_keeps_its_call_and_its_question() -> None:
    call = Item(id="c", kind="function_call", role="assistant", modality="text", text="{}", call_id="x", name="f")
    result = Item(
        id="o", kind="function_call_output", role="tool", modality="text", text="found: " + WORDS * 40, call_id="x"
    )
    question, calling, given_back = window().messages([*turns(3), item(6, "user", "so? "), call, result], "")[-3:]
    assert question.text.endswith("so? 6")
    assert [made.name for made in calling.calls] == ["f"]
    assert given_back.role == "tool" and given_back.text.startswith("found: ")
    assert estimate_tokens(given_back.text) <= ROOM // 2


def test_no_turn_begins_with_the_result_of_a_function() -> None:
    call = Item(id="c", kind="function_call", role="assistant", modality="text", text="{}", call_id="x", name="f")
    result = Item(id="o", kind="function_call_output", role="tool", modality="text", text=WORDS, call_id="x")
    items = [*turns(4), item(8, "user"), call, result, item(9, "assistant")]
    trim = window(room=120).step(items, "")
    assert trim is not None and trim.first_item_id == "i8"


def test_half_a_call_is_none() -> None:
    long = Item(
        id="c", kind="function_call", role="assistant", modality="text", text=f'"{WORDS * 40}"', call_id="x", name="f"
    )
    result = Item(id="o", kind="function_call_output", role="tool", modality="text", text="done", call_id="x")
    assert window().messages([long, result], "") == (Message(role="user", text="A function gave this result: done"),)
