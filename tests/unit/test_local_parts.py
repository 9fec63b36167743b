"""The pure parts of the pack `local`: prompts, slots, options, windows, word marks, hashes."""

from __future__ import annotations

import dataclasses
import itertools
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from duplex_models.local import chat, create, transcribe, weights
from duplex_models.local.pcm import to_int16
from duplex_models.local.slots import SlotTable
from duplex_models.local.speakable import SpokenWord
from duplex_models.local.talk import word_marks
from hypothesis import given
from hypothesis import strategies as st

from duplex.payloads import Message
from duplex.stages.contract import PackError, Role
from duplex.stages.graph import build_graph

pytestmark = pytest.mark.unit


def _turns(count: int, text: str = "word " * 20) -> list[Message]:
    said = [Message(role="system", text="Be brief.")]
    for n in range(count):
        said += [Message(role="user", text=f"{n} {text}"), Message(role="assistant", text=f"answer {n}")]
    return [*said, Message(role="user", text="last")]


# Prompts. ------------------------------------------------------------------------------------------------------------


def test_a_prompt_is_open_for_the_assistants_next_word() -> None:
    messages = (Message(role="system", text="Be brief."), Message(role="user", text=" Hi. "))
    assert chat.render(messages, "Hello ") == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi.<|im_end|>\n<|im_start|>assistant\nHello"
    )


@given(st.text(alphabet="<|im_start>end ", max_size=40))
def test_words_never_become_control_tokens(text: str) -> None:
    prompt = chat.render((Message(role="user", text=text),), text)
    assert prompt.count("<|") == (3 if text.strip() else 1)


@given(st.text(max_size=40), st.text(max_size=40), st.booleans())
def test_what_is_read_ahead_is_the_beginning_of_the_prompt_to_come(said: str, more: str, answered: bool) -> None:
    history = (Message(role="system", text="Be brief."), Message(role="user", text=f"Hello {said.split()} I am"))
    if answered:
        history = (*history, Message(role="assistant", text="Yes."))
        coming = (*history, Message(role="user", text=f"And {more}"))
    else:
        coming = (history[0], Message(role="user", text=f"{history[1].text} here. {more.split()}"))
    assert chat.render(coming).startswith(chat.render_open(history))
    assert chat.render(history).startswith(chat.render_open(history))


@given(st.text(max_size=60), st.text(max_size=60), st.integers(0, 60), st.integers(1, 9))
def test_a_prompt_is_read_in_growing_steps_from_where_it_is_new(text: str, other: str, same: int, tokens: int) -> None:
    read = text[:same] + other
    steps = list(chat.steps(text, read, tokens))
    new = len(text) - len(os.path.commonprefix([text, read]))
    assert steps[-1:] == ([text] if new else [])
    lengths = [len(text) - new, *map(len, steps)]
    assert all(0 < later - earlier <= 3 * tokens for earlier, later in itertools.pairwise(lengths))
    assert all(text.startswith(step) for step in steps)


def test_the_default_system_message_yields_to_the_sessions_own() -> None:
    own = (Message(role="system", text="Own."), Message(role="user", text="Hi"))
    assert chat.with_system(own, "Default.") == own
    assert chat.with_system(own[1:], "Default.")[0] == Message(role="system", text="Default.")
    assert chat.with_system(own[1:], "") == own[1:]


def test_of_the_last_turn_its_end_is_left_and_no_broken_letter() -> None:
    messages = _turns(3, "zwölf Böcke " * 20)
    cut = chat.last_turn(messages, 24)
    assert cut[0] == messages[0]
    assert len(cut) == 2
    assert messages[-1].text.endswith(cut[1].text)
    assert 0 < len(cut[1].text.encode()) <= 24
    assert chat.last_turn(messages, 10_000) == (messages[0], messages[-1])
    assert chat.last_turn((), 10) == ()


# Slots. --------------------------------------------------------------------------------------------------------------


def test_a_conversation_comes_back_to_its_own_slot_and_waits_for_it() -> None:
    table = SlotTable(2)
    first = table.acquire(("a", 0))
    assert first is not None
    assert table.acquire(("a", 0)) is None
    assert table.acquire(("b", 0)) == 1 - first
    table.give_back(first)
    assert table.acquire(("a", 0)) == first


def test_the_slot_used_longest_ago_is_given_away_but_an_ended_sessions_first() -> None:
    table = SlotTable(3)
    slots = {}
    for session in "abc":
        slot = table.acquire((session, 0))
        assert slot is not None
        slots[session] = slot
        table.give_back(slot)
    assert table.acquire(("d", 0)) == slots["a"]
    table.forget("c")
    assert table.acquire(("e", 0)) == slots["c"]
    assert table.acquire(("f", 0)) == slots["b"]
    assert table.acquire(("g", 0)) is None


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), max_size=60))
def test_no_slot_is_ever_taken_twice(steps: list[tuple[str, bool]]) -> None:
    table, busy = SlotTable(3), dict[str, int]()
    for session, ends in steps:
        if session in busy:
            table.give_back(busy.pop(session))
            if ends:
                table.forget(session)
        else:
            slot = table.acquire((session, 0))
            if slot is not None:
                assert slot not in busy.values()
                busy[session] = slot
            else:
                assert len(busy) == 3


# Options. ------------------------------------------------------------------------------------------------------------


def test_the_pack_fits_the_stage_graph_and_has_every_role_of_turn_mode() -> None:
    assert set(build_graph(create({"reader": False}, 1)).nodes) == set(Role) - {Role.TICK, Role.READ}
    assert set(build_graph(create({}, 1)).nodes) == set(Role) - {Role.TICK}


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"speed": 1}, "speed"),
        ({"sessions": 0}, "sessions"),
        ({"temperature": "hot"}, "temperature"),
        ({"whisper_threads": 3}, "whisper_threads"),
    ],
)
def test_a_bad_option_is_named(options: dict[str, Any], names: str) -> None:
    with pytest.raises(PackError, match=names):
        create(options, 2)


# Transcription windows. ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "windows"), [(0.0, 1), (1.0, 1), (9.9, 1), (10.0, 2), (25.0, 3), (29.9, 3)])
def test_windows_are_ten_twenty_or_thirty_seconds(seconds: float, windows: int) -> None:
    samples = np.ones(int(seconds * 16_000), np.float32)
    padded, count = transcribe.pad(samples)
    assert (count, len(padded)) == (windows, windows * 160_000)
    assert padded.sum() == len(samples)


def test_long_audio_is_cut_at_its_quietest_moment_and_nothing_is_lost() -> None:
    samples = np.random.default_rng(1).standard_normal(70 * 16_000).astype(np.float32)
    samples[27 * 16_000 : 27 * 16_000 + 3200] = 0
    pieces = list(transcribe.parts(samples))
    assert np.array_equal(np.concatenate(pieces), samples)
    assert all(len(piece) <= 30 * 16_000 for piece in pieces)
    assert 27.0 <= len(pieces[0]) / 16_000 <= 27.2


@pytest.mark.parametrize(
    ("heard", "tidied"),
    [
        (" who wrote Romeo and Juliet.", "Who wrote Romeo and Juliet?"),
        ("how many days are in a week", "How many days are in a week?"),
        ("can you help me.", "Can you help me?"),
        ("When I was young, I lived there.", "When I was young, I lived there."),
        ("what a day.", "What a day."),
        ("It is late. Who knows.", "It is late. Who knows."),
        ("Why? Because.", "Why? Because."),
        ("what time is it?", "What time is it?"),
        ("", ""),
    ],
)
def test_transcripts_get_capital_and_question_mark(heard: str, tidied: str) -> None:
    assert transcribe.tidy(heard) == tidied


def test_quiet_is_under_minus_sixty_decibels_everywhere() -> None:
    samples = np.full(16_000, 0.0005, np.float32)
    assert transcribe.is_quiet(samples)
    assert transcribe.is_quiet(samples[:0])
    samples[8000:9600] = 0.01
    assert not transcribe.is_quiet(samples)


# Voice. --------------------------------------------------------------------------------------------------------------


def test_word_marks_follow_the_durations_and_skip_the_inside_of_a_written_word() -> None:
    words = [SpokenWord(text="five", end=None), SpokenWord(text="dollars", end=2), SpokenWord(text="now", end=6)]
    marks = word_marks(words, [3, 5, 8], np.arange(1, 9, dtype=np.float32))
    assert [(mark.text_end, mark.end) for mark in marks] == [(2, 15), (6, 36)]


def test_loud_samples_are_clipped_and_never_wrap() -> None:
    pcm = to_int16(np.array([0.0, 1.0, -1.0, 7.5, -7.5, np.float32(0.5)], np.float32))
    assert pcm.tolist() == [0, 32767, -32767, 32767, -32767, 16384]


# Weights. ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def weight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> weights.Weight:
    package = tmp_path / "weightpack"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('weights are found without importing their package')")
    (package / "model.bin").write_bytes(b"right")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "weightpack" not in sys.modules
    digest = weights.sha256_of(package / "model.bin")
    return weights.Weight(package="weightpack==1", module="weightpack", path="model.bin", sha256=digest)


def test_a_right_file_is_found_without_importing_its_package(weight: weights.Weight) -> None:
    assert weights.verified(weight).read_bytes() == b"right"


def test_a_wrong_hash_is_refused_and_says_what_to_install(weight: weights.Weight) -> None:
    weights.locate(weight).write_bytes(b"wrong")
    with pytest.raises(PackError, match="weightpack==1"):
        weights.verified(weight)


@pytest.mark.parametrize("change", [{"path": "other.bin"}, {"module": "no_such_module"}])
def test_a_missing_file_says_what_to_install(weight: weights.Weight, change: dict[str, str]) -> None:
    with pytest.raises(PackError, match="install weightpack==1"):
        weights.verified(dataclasses.replace(weight, **change))


def test_the_documentation_lists_every_weight_with_its_hash() -> None:
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
    for item in weights.ALL:
        assert f"| `{item.module}/{item.path}` | {item.package} | `{item.sha256}` |" in page
