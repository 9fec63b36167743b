"""Traces: bad lines are refused with their place, good ones survive a round trip, and generators keep what they state."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen import trace
from loadgen.cli import main
from loadgen.generate import ANSWER_WORDS_PER_S, RECIPES, LogNormal, Recipe, arrivals, generate
from loadgen.trace import Header, SessionTrace, Trace, TraceError, Turn, dump, parse, read

pytestmark = pytest.mark.unit
TRACES = sorted((Path(trace.__file__).parent / "traces").glob("*.jsonl"))
TURN: dict[str, Any] = {"gap_s": 1, "speech_s": 2, "words": 5, "answer_words": 9}
SESSION: dict[str, Any] = {"session": "a", "at_s": 0, "turns": [TURN, TURN]}
HEADER: dict[str, Any] = {"duplex_trace": 1, "name": "t"}


def lines(*objects: Any) -> list[str]:
    return [each if isinstance(each, str) else json.dumps(each) for each in objects]


def session(**changes: Any) -> dict[str, Any]:
    return SESSION | changes


def turns(**changes: Any) -> dict[str, Any]:
    """A session whose first turn is changed."""
    return SESSION | {"turns": [TURN | changes, TURN]}


def without(of: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in of.items() if name != key}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        # The line itself.
        ("{", r"not JSON: .+"),
        ("[1]", "not a JSON object"),
        ("null", "not a JSON object"),
        ("[" * 100_000, r"not JSON: .+"),
        ('{"session": "a", "at_s": NaN, "turns": []}', r"at_s: .*finite.*"),
        # Keys.
        (session(color="red"), r"color: Extra inputs .*"),
        (turns(color="red"), r"turns\.0\.color: Extra inputs .*"),
        (without(SESSION, "at_s"), "at_s: Field required"),
        (without(SESSION, "turns"), "turns: Field required"),
        ({"session": "a", "at_s": 0, "turns": [without(TURN, "words")]}, r"turns\.0\.words: Field required"),
        # Values.
        (session(at_s=-1), r"at_s: .*greater than or equal to 0"),
        (session(at_s="soon"), r"at_s: .*number.*"),
        (session(session=""), r"session: .*at least 1 character"),
        (session(session="x" * 65), r"session: .*at most 64 characters"),
        (session(tenant=""), r"tenant: .*at least 1 character"),
        (session(turns=[]), r"turns: .*at least 1 item.*"),
        (turns(gap_s=-0.1), r"turns\.0\.gap_s: .*greater than or equal to 0"),
        (turns(speech_s=0), r"turns\.0\.speech_s: .*greater than 0"),
        (turns(speech_s=61), r"turns\.0\.speech_s: .*less than or equal to 60"),
        (turns(words=0), r"turns\.0\.words: .*greater than or equal to 1"),
        (turns(words=2.5), r"turns\.0\.words: .*integer.*"),
        (turns(answer_words=0), r"turns\.0\.answer_words: .*greater than or equal to 1"),
        (turns(interrupt_after_s=-1), r"turns\.0\.interrupt_after_s: .*greater than or equal to 0"),
        # Pauses and backchannels.
        (turns(pauses=[[1.5, 0.5]]), r"turns\.0: pause at 1\.5 s: .*inside the speech of 2\.0 s"),
        (turns(pauses=[[0, 0.5]]), r"turns\.0: pause at 0\.0 s: .*"),
        (turns(pauses=[[1, 0]]), r"turns\.0: pause at 1\.0 s: .*"),
        (turns(pauses=[[1, 0.3], [1.2, 0.3]]), r"turns\.0: pause at 1\.2 s: pauses follow each other.*"),
        (turns(pauses=[[1]]), r"turns\.0\.pauses\.0\..*"),
        (turns(backchannels=[[-1, 0.2]]), r"turns\.0: backchannel at -1\.0 s: .*"),
        (turns(backchannels=[[1, 2.5]]), r"turns\.0: backchannel at 1\.0 s: .* at most 2 s"),
        (turns(backchannels=[[1, 0]]), r"turns\.0: backchannel at 1\.0 s: .*"),
        # What contradicts itself.
        ({"session": "a", "at_s": 0, "turns": [TURN | {"interrupt_after_s": 1}]}, r"the last turn's answer cannot be interrupted.*"),
    ],
)  # fmt: skip
def test_a_bad_session_is_refused_with_its_place_and_the_reason(bad: Any, reason: str) -> None:
    with pytest.raises(TraceError) as refused:
        parse(lines(HEADER, session(session="good"), "", bad), "file.jsonl")
    place, _, said = str(refused.value).partition(": ")
    assert place == "file.jsonl:4"
    assert "\n" not in said
    assert re.fullmatch(reason, said), said


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (HEADER | {"duplex_trace": 2}, "duplex_trace: Input should be 1"),
        ({"name": "t"}, "duplex_trace: Field required"),
        ({"duplex_trace": 1}, "name: Field required"),
        (SESSION, "duplex_trace: Field required"),
        (HEADER | {"arrivals": "sometimes"}, "arrivals: Input should be 'open' or 'closed'"),
        (HEADER | {"arrivals_cv": 21}, "arrivals_cv: Input should be less than or equal to 20"),
        (HEADER | {"arrivals_cv": -1}, "arrivals_cv: Input should be greater than or equal to 0"),
        (HEADER | {"speed": 2}, "speed: Extra inputs are not permitted"),
    ],
)
def test_a_bad_header_is_refused(header: Any, reason: str) -> None:
    with pytest.raises(TraceError) as refused:
        parse(lines("", header, SESSION), "file.jsonl")
    assert str(refused.value) == f"file.jsonl:2: {reason}"


def test_a_session_twice_and_a_time_that_goes_back_are_refused() -> None:
    with pytest.raises(TraceError, match=r"^t:3: session 'a' is there twice$"):
        parse(lines(HEADER, SESSION, session(at_s=1)), "t")
    with pytest.raises(TraceError, match=r"^t:4: at_s 1\.9 is before the session above it$"):
        parse(lines(HEADER, SESSION, session(session="b", at_s=2), session(session="c", at_s=1.9)), "t")
    same = parse(lines(HEADER, SESSION, session(session="b")))  # two may come at once
    assert len(same.sessions) == 2


@pytest.mark.parametrize(
    ("content", "reason"),
    [([], "it is empty; .* header"), (["", "  "], "it is empty; .*"), (lines(HEADER), "no session after the header")],
)
def test_an_empty_trace_is_refused(content: list[str], reason: str) -> None:
    with pytest.raises(TraceError, match=f"^t: {reason}$"):
        parse(content, "t")


def test_a_file_that_is_not_there_or_not_text_is_refused_with_its_name(tmp_path: Path) -> None:
    for path in (tmp_path / "none.jsonl", Path("no_such_trace"), tmp_path):
        with pytest.raises(TraceError, match=path.name):
            read(path)
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TraceError, match="binary"):
        read(tmp_path / "binary.jsonl")


def test_a_file_is_called_by_its_name_and_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(lines(HEADER, session(at_s=-1))), encoding="utf-8")
    with pytest.raises(TraceError, match=r"^mine\.jsonl:2: at_s"):
        read(path)


@given(st.binary(max_size=200))
def test_whatever_the_bytes_only_a_trace_error_comes(content: bytes) -> None:
    text = content.decode("latin-1")
    with pytest.raises(TraceError):
        parse([json.dumps(HEADER), *text.split("\n"), "x"])


# Round trips. ---------------------------------------------------------------------------------------------------------

seconds = st.floats(0, 30).map(lambda s: round(s, 3))
made_turns = st.builds(
    Turn, gap_s=seconds, speech_s=st.just(5.0), words=st.integers(1, 30), answer_words=st.integers(1, 200),
    pauses=st.sampled_from([(), ((1.0, 0.5),), ((0.1, 0.2), (3.0, 1.5))]),
    interrupt_after_s=st.one_of(st.none(), seconds),
    backchannels=st.lists(st.tuples(seconds, st.just(0.25)), max_size=2).map(tuple),
)  # fmt: skip
last_turns = made_turns.map(lambda turn: turn.model_copy(update={"interrupt_after_s": None}))
made_sessions = st.builds(
    lambda turns, last, tenant: SessionTrace(session="x", at_s=0, tenant=tenant, turns=(*turns, last)),
    st.lists(made_turns, max_size=3), last_turns, st.text(min_size=1, max_size=5),
)  # fmt: skip


@given(st.lists(made_sessions, min_size=1, max_size=4), st.text(min_size=1, max_size=10), st.floats(0, 20))
def test_what_is_written_is_read_as_it_was(sessions: list[SessionTrace], name: str, cv: float) -> None:
    numbered = [each.model_copy(update={"session": f"s{n}", "at_s": n * 0.5}) for n, each in enumerate(sessions)]
    made = Trace(header=Header(duplex_trace=1, name=name, arrivals_cv=cv), sessions=tuple(numbered))
    written = list(dump(made))
    assert all("\n" not in line for line in written)
    assert parse(written) == made


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_the_committed_traces_are_what_their_command_writes(path: Path, tmp_path: Path) -> None:
    made_by = read(Path(path.stem)).header.made_by.split()
    assert made_by[:3] == ["loadgen", "trace", path.stem]
    out = tmp_path / "again.jsonl"
    assert main([*made_by[1:], "--out", str(out)]) == 0
    assert out.read_bytes() == path.read_bytes()


def test_there_is_a_sparse_a_busy_and_an_interrupted_one() -> None:
    found = {path.stem: read(path) for path in TRACES}
    assert {"sparse", "busy", "interrupted"} <= found.keys()
    assert found.keys() == RECIPES.keys()
    for name, made in found.items():
        assert made.header.name == name and made.header.about
    assert found["sparse"].rate < found["interrupted"].rate < found["busy"].rate
    assert found["busy"].turns == sum(len(each.turns) for each in found["busy"].sessions)


# Generators. ----------------------------------------------------------------------------------------------------------

MANY = 1500


def every_turn(made: Trace) -> list[Turn]:
    return [turn for each in made.sessions for turn in each.turns]


@pytest.mark.parametrize("name", RECIPES)
def test_a_generator_keeps_its_medians_and_probabilities(name: str) -> None:
    recipe = RECIPES[name]
    made = generate(recipe, MANY, seed=5)
    all_turns = every_turn(made)
    for length, values in (
        (recipe.speech_s, [turn.speech_s for turn in all_turns]),
        (recipe.answer_words, [float(turn.answer_words) for turn in all_turns]),
        (recipe.gap_s, [turn.gap_s for turn in all_turns]),
    ):
        assert statistics.median(values) == pytest.approx(length.median, rel=0.05)
        inside = [math.log(value) for value in values if length.least < value < length.most]
        assert statistics.stdev(inside) == pytest.approx(length.sigma, rel=0.15)  # a little less: the ends are cut off
        assert length.least <= min(values) and max(values) <= length.most
    before_last = [turn for each in made.sessions for turn in each.turns[:-1]]
    share = sum(turn.interrupt_after_s is not None for turn in before_last) / len(before_last)
    assert share == pytest.approx(recipe.interrupted, abs=0.03)
    assert all(each.turns[-1].interrupt_after_s is None for each in made.sessions)
    long = [turn for turn in all_turns if turn.speech_s > 2]
    assert sum(bool(turn.pauses) for turn in long) / len(long) == pytest.approx(recipe.paused, abs=0.03)
    counts = [len(each.turns) for each in made.sessions]
    assert (min(counts), max(counts)) == recipe.turns
    assert statistics.mean(counts) == pytest.approx(sum(recipe.turns) / 2, rel=0.05)


def test_interruptions_are_anywhere_in_the_answer_and_backchannels_inside_it() -> None:
    all_turns = every_turn(generate(RECIPES["interrupted"], MANY, seed=5))
    places = [
        turn.interrupt_after_s / (turn.answer_words / ANSWER_WORDS_PER_S)
        for turn in all_turns
        if turn.interrupt_after_s is not None and turn.answer_words > 60
    ]
    assert 0 < min(places) and max(places) <= 1
    assert statistics.mean(places) == pytest.approx(0.5, abs=0.03)
    assert statistics.stdev(places) == pytest.approx(1 / math.sqrt(12), abs=0.03)
    for turn in all_turns:
        for start, length in turn.backchannels:
            assert turn.interrupt_after_s is None
            assert start + length < turn.answer_words / ANSWER_WORDS_PER_S


@pytest.mark.parametrize(("rate", "cv"), [(0.5, 0.0), (2.0, 0.5), (0.05, 1.0), (4.0, 2.0), (1.0, 4.0)])
def test_arrivals_have_their_rate_and_burstiness(rate: float, cv: float) -> None:
    times = list(itertools.islice(arrivals(rate, cv, random.Random(3)), 20_000))
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert times[0] == 0
    assert min(gaps) >= 0
    assert 1 / statistics.mean(gaps) == pytest.approx(rate, rel=0.1)
    assert statistics.stdev(gaps) * rate == pytest.approx(cv, rel=0.1, abs=1e-9)


def test_the_same_seed_makes_the_same_trace_and_another_one_another() -> None:
    recipe = RECIPES["busy"]
    assert generate(recipe, 5, seed=1) == generate(recipe, 5, seed=1)
    assert generate(recipe, 5, seed=1) != generate(recipe, 5, seed=2)
    assert generate(recipe, 9, seed=1).sessions[:5] == generate(recipe, 5, seed=1).sessions


def test_tenants_are_drawn_evenly() -> None:
    recipe = replace(RECIPES["sparse"], tenants=("a", "b"))
    got = [each.tenant for each in generate(recipe, 400, seed=1).sessions]
    assert set(got) == {"a", "b"}
    assert got.count("a") == pytest.approx(200, abs=40)


@given(st.integers(0, 1000), st.sampled_from(sorted(RECIPES)))
def test_whatever_the_seed_the_trace_can_be_read(seed: int, name: str) -> None:
    made = generate(RECIPES[name], 3, seed)
    assert parse(dump(made)) == made


@given(st.integers(0, 10_000))
def test_a_length_is_cut_off_at_its_ends(seed: int) -> None:
    length = LogNormal(median=2.0, sigma=3.0, least=1.5, most=2.5)
    assert 1.5 <= length.draw(random.Random(seed)) <= 2.5


def test_a_trace_says_the_command_that_makes_it_again() -> None:
    recipe = Recipe(name="busy", about="", rate=7.0, cv=0.5)
    assert generate(recipe, 2, 3).header.made_by == "loadgen trace busy --sessions 2 --seed 3 --rate 7.0 --cv 0.5"


# The command. ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["busy", "--sessions", "0"], "sessions: 0"),
        (["busy", "--sessions", "-3"], "sessions: -3"),
        (["busy", "--rate", "0"], "rate: 0.0"),
        (["busy", "--rate", "-1"], "rate: -1.0"),
        (["busy", "--rate", "nan"], "rate: nan"),
        (["busy", "--rate", "inf"], "rate: inf"),
        (["busy", "--cv", "-1"], "cv: -1.0"),
        (["busy", "--cv", "21"], "cv: 21.0"),
        (["busy", "--cv", "nan"], "cv: nan"),
    ],
)
def test_bad_input_answers_one_line_and_2(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"loadgen: {says}")
    assert printed.err.count("\n") == 1


def test_a_file_that_cannot_be_written_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "none" / "trace.jsonl"
    assert main(["trace", "busy", "--sessions", "2", "--out", str(out)]) == 2
    assert capsys.readouterr().err == f"loadgen: {out}: No such file or directory\n"


@pytest.mark.parametrize("arguments", [[], ["nope"], ["busy", "--sessions", "many"], ["busy", "--speed", "2"]])
def test_wrong_usage_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["trace", *arguments])
    assert ended.value.code == 2
    assert "usage: loadgen" in capsys.readouterr().err


def test_without_a_file_the_trace_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "sparse", "--sessions", "2", "--rate", "1", "--cv", "0"]) == 0
    made = parse(capsys.readouterr().out.splitlines())
    assert [each.at_s for each in made.sessions] == [0.0, 1.0]
