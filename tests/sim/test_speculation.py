"""Replies that are begun before the turn has ended: adopted, bounded, and never to be seen or heard before it has."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from duplex.payloads import Address, Audio, Job, JobId, Message, Pace, Prompt
from duplex.protocol import TransportName
from duplex.session.effects import Enqueue, Send, Submit
from duplex.session.events import ReplyCreated
from duplex.stages.contract import Role
from duplex.units import MonoNs, ns_from_ms
from tests.sim.drafts import (
    ANSWERED,
    CHANGES,
    DROPS,
    SPOKEN_MS,
    TEXT,
    TRANSPORTS,
    WORDS_AT_MS,
    draft_of,
    outcomes,
    serve,
    settled,
    speak,
    told,
)
from tests.sim.world import Session

pytestmark = pytest.mark.sim

# Adopted. -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_answer_is_there_when_the_turn_is_committed(transport: TransportName) -> None:
    def first_sound(speculate: bool) -> tuple[int, int]:
        server = serve(speculate)
        session = server.connect(transport)
        session.say(SPOKEN_MS)
        server.advance(7000)
        settled(server)
        return session.client.at("input_audio_buffer.committed"), session.client.at(
            "output_audio_buffer.started" if transport == "webrtc" else "response.output_audio.delta"
        )

    committed, late = first_sound(False)
    assert late - committed > ns_from_ms(75)
    again, early = first_sound(True)
    assert again == committed
    assert 0 <= early - committed <= ns_from_ms(20)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_nothing_of_a_draft_is_told_or_queued_before_its_turn_is_committed(transport: TransportName) -> None:
    server = serve()
    session = server.connect(transport)
    speak(server, session)
    before = session.client.types()[2:]
    draft = draft_of(session)
    assert before == ["input_audio_buffer.speech_started"]
    assert [type(effect) for _, effect in session.effects if isinstance(effect, Enqueue)] == []
    assert not session.actor._core.lane.alive
    assert len(session.actor._core.conversation) == 0
    server.advance(7000)
    assert outcomes(server) == {"adopted": 1}
    assert [event["response"]["id"] for event in session.client.of("response.created")] == [draft.reply.id]
    created = session.client.of("response.created")[0]["response"]
    assert (created["status"], created["output"]) == ("in_progress", [])
    settled(server)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_client_is_told_the_same_with_and_without(transport: TransportName) -> None:
    def conversation(speculate: bool) -> list[Any]:
        server = serve(speculate)
        session = server.connect(transport)
        for _ in range(2):
            session.say(SPOKEN_MS)
            server.advance(9000)
        settled(server)
        assert outcomes(server) == ({"adopted": 2} if speculate else {})
        return told(session)

    assert conversation(True) == conversation(False)


def test_the_parts_of_a_turns_latency_are_none_of_them_negative_and_sum_up() -> None:
    server = serve(transcribe_s=0.02)
    session = server.connect()
    session.say(SPOKEN_MS)
    server.advance(3000)
    (split,) = [event["split"] for event in session.client.of("duplex.metrics")]
    ttfas = split.pop("ttfas")
    assert all(part >= 0 for part in split.values())
    assert sum(split.values()) == pytest.approx(ttfas)
    assert (split["think"], split["talk"], split["vocode"]) == (0, 0, 0)
    assert server.values("duplex_ttfas_seconds", observed="sent") == [pytest.approx(ttfas)]
    assert 0 <= server.values("duplex_server_overhead_seconds")[0] < 0.04
    marks = [reply.marks for reply in session.actor._core.lane]
    assert marks[0]["thought"] < marks[0]["committed"] < marks[0]["sent"]


@pytest.mark.parametrize("stage", ["think", "talk", "vocode"])
def test_a_draft_that_is_adopted_halfway_goes_on_in_its_listeners_pace(stage: str) -> None:
    server = serve(**{{"think": "first_token_s", "talk": "talk_s", "vocode": "vocode_s"}[stage]: 0.15})
    session = server.connect()
    session.say(SPOKEN_MS)
    server.advance(9000)
    assert outcomes(server) == {"adopted": 1}
    jobs = [effect.job for _, effect in session.effects if isinstance(effect, Submit)]
    assert jobs[0].stage is Role.THINK and jobs[0].pace.speculative
    created = next(
        n for n, (_, e) in enumerate(session.effects) if isinstance(e, Send) and isinstance(e.event, ReplyCreated)
    )
    after = [effect.job.pace for _, effect in session.effects[created:] if isinstance(effect, Submit)]
    assert after and not any(pace.speculative for pace in after)
    assert session.client.of("response.done")[0]["response"]["status"] == "completed"
    settled(server)


def test_clauses_and_chunks_keep_their_order_over_the_adoption() -> None:
    def sound(speculate: bool) -> tuple[list[int], bytes, str]:
        server = serve(speculate)
        session = server.connect("websocket")
        session.say(SPOKEN_MS)
        server.advance(9000)
        audio = [e.audio for _, e in session.effects if isinstance(e, Enqueue) and isinstance(e.audio, Audio)]
        pcm = b"".join(base64.b64decode(e["delta"]) for e in session.client.of("response.output_audio.delta"))
        text = "".join(e["delta"] for e in session.client.of("response.output_audio_transcript.delta"))
        return [each.clause for each in audio], pcm, text

    clauses, pcm, text = sound(True)
    assert clauses == sorted(clauses) and set(clauses) == {0, 1, 2}
    assert text == TEXT
    assert (pcm, text) == sound(False)[1:]


def test_on_webrtc_the_text_of_a_clause_still_comes_with_its_sound() -> None:
    server = serve()
    session = server.connect()
    session.say(SPOKEN_MS)
    server.advance(9000)
    kinds = session.client.types()
    assert kinds.index("output_audio_buffer.started") < kinds.index("response.output_audio_transcript.delta")
    first = session.sounding()[0]
    texts = [when for when, event in session.client.events if event["type"].endswith("transcript.delta")][1:]
    for words, when in zip((4, 9), texts, strict=True):
        due = first + ns_from_ms(300 * words)
        assert due - ns_from_ms(900) <= when <= due + ns_from_ms(260)


def test_a_reply_that_was_made_to_its_end_is_adopted_with_its_end() -> None:
    server = serve(script=("Yes.",))
    for transport in TRANSPORTS:
        session = server.connect(transport)
        session.say(SPOKEN_MS)
        server.advance(3000)
        assert session.client.of("response.done")[0]["response"]["status"] == "completed"
        assert session.client.of("response.output_audio_transcript.done")[0]["transcript"] == "Yes."
        session.leave()
    server.advance(100)
    assert outcomes(server) == {"adopted": 2}
    settled(server)


def test_a_sentence_that_is_added_right_behind_another_is_drafted_too() -> None:
    server = serve()
    took = iter([0.6])
    server.world.costs["transcribe"] = lambda: next(took, 0.02)
    session = server.connect()
    session.say(800)
    server.advance(800 + 400)
    assert "input_audio_buffer.committed" in session.client.types()
    session.say(800)
    server.advance(9000)
    assert outcomes(server) == {"adopted": 1}
    assert len(session.client.of("response.created")) == 1
    heard = [e["transcript"] for e in session.client.of("conversation.item.input_audio_transcription.completed")]
    assert server.stage("think").prompts[-1].messages[-1].text == " ".join(heard)
    assert len(heard) == 2
    settled(server)


# Bounds. ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most_ms", [0, 250, 600])
def test_a_draft_makes_no_more_than_it_may_however_long_the_pause_is(most_ms: int) -> None:
    server = serve(end_probability=0.1, pacing={"speculative_ms_max": most_ms}, script=(TEXT * 5,))
    session = server.connect()
    session.say(SPOKEN_MS)
    server.advance(SPOKEN_MS + 1900)
    draft = draft_of(session)
    assert draft.reply.generated <= 48 * most_ms
    assert draft.reply.generated > 48 * (most_ms - 40)
    assert draft.turns._speech.chars_waiting <= 3 * 60
    assert server.stage("think").running == 1  # paused at its bound of clauses
    server.advance(30_000)
    assert outcomes(server) == {"adopted": 1}
    assert session.client.of("response.done")[0]["response"]["status"] == "completed"
    assert server.total("duplex_underruns_total") == 0
    settled(server)


@pytest.mark.parametrize("wire", [
    {"output_modalities": ["text"]}, {"audio": {"input": {"turn_detection": None}}},
    {"audio": {"input": {"turn_detection": {"type": "semantic_vad", "create_response": False}}}},
])  # fmt: skip
def test_no_draft_where_no_listener_waits_for_an_answer_of_its_own_accord(wire: dict[str, Any]) -> None:
    server = serve()
    session = server.connect(wire={"type": "realtime", **wire})
    speak(server, session)
    server.advance(1000)
    assert outcomes(server) == {}
    assert not any(isinstance(e, Submit) and e.job.pace.speculative for _, e in session.effects)


def test_no_draft_with_an_engine_that_is_billed_by_use() -> None:
    server = serve()
    object.__setattr__(server.runners.graph.pack, "speculates", False)
    session = server.connect()
    speak(server, session)
    server.advance(7000)
    assert outcomes(server) == {}
    assert session.client.of("response.done")


def test_no_draft_over_a_reply_that_still_plays() -> None:
    server = serve()
    detection = {"type": "semantic_vad", "interrupt_response": False}
    session = server.connect(wire={"type": "realtime", "audio": {"input": {"turn_detection": detection}}})
    session.type_text("go")
    server.advance(1000)
    speak(server, session)
    server.advance(9000)
    assert outcomes(server) == {}
    assert len(session.client.of("response.done")) == 2


# Others. ------------------------------------------------------------------------------------------------------------


def test_a_full_engine_that_can_pause_sets_a_draft_aside() -> None:
    server = serve(parallel=1, end_probability=0.1, script=(TEXT,), first_token_s=0.2)
    one, other = server.connect(), server.connect()
    one.say(SPOKEN_MS)
    server.advance(WORDS_AT_MS)
    draft_of(one)
    other.type_text("go")
    job = server.stage("think").prompts[-1]
    assert job.messages[-1].text == "go"  # it runs at once
    assert [thought.paused for thought in server.stage("think")._running.values()] == [True, False]
    server.advance(20_000)
    assert outcomes(server) == {"adopted": 1}
    assert len(one.client.of("response.done")) == len(other.client.of("response.done")) == 1
    settled(server)


def test_a_full_engine_that_cannot_pause_aborts_a_draft_for_others() -> None:
    server = serve(parallel=1, pausable=False, end_probability=0.1, first_token_s=0.2)
    one, other = server.connect(), server.connect()
    one.say(SPOKEN_MS)
    server.advance(WORDS_AT_MS)
    draft_of(one)
    other.type_text("go")
    assert outcomes(server) == {"preempted": 1}
    assert server.stage("think").prompts[-1].messages[-1].text == "go"
    server.advance(20_000)
    assert outcomes(server) == {"preempted": 1}
    assert "error" not in one.client.types()
    assert len(one.client.of("response.done")) == len(other.client.of("response.done")) == 1
    settled(server)


def test_those_who_have_time_leave_the_step_of_a_draft_once_it_is_adopted() -> None:
    server = serve(first_token_s=1.0)
    runner = server.runners.runners[Role.THINK]
    far, first = Pace(since=MonoNs(0), dry_at=MonoNs(10**10)), Pace(since=MonoNs(0))
    for number, pace in enumerate((far, replace(first, speculative=True)), start=1):
        address = Address(session=f"s{number}", lane=0, epoch=0, reply="r")
        prompt = Prompt(messages=(Message(role="user", text="go"),))
        server.runners.open(address.session, lambda job, out: None)
        runner.submit(Job(id=JobId(number), stage=Role.THINK, address=address, payload=prompt, pace=pace))
    thoughts = server.stage("think")._running
    assert [thoughts[JobId(number)].paused for number in (1, 2)] == [False, False]
    runner.repace(JobId(2), first)
    assert [thoughts[JobId(number)].paused for number in (1, 2)] == [True, False]


# Properties. --------------------------------------------------------------------------------------------------------

EVENTS: dict[str, Callable[[Session], None]] = {
    **CHANGES,
    **{name: drop for name, drop in DROPS.items() if name in ANSWERED},
    "truncate": lambda s: s.event(
        type="conversation.item.truncate", item_id="item_none", content_index=0, audio_end_ms=10
    ),
    "unknown": lambda s: s.event(type="unknown"),
    "nothing": lambda s: None,
}
pauses = st.lists(
    st.tuples(st.integers(250, 900), st.integers(20, 180), st.sampled_from(sorted(EVENTS)), st.integers(0, 200)),
    min_size=1, max_size=5,
)  # fmt: skip
stage_costs = st.tuples(*[st.sampled_from([0.0, 0.005, 0.03, 0.1])] * 4)


@given(
    st.lists(pauses, min_size=1, max_size=2),
    st.sampled_from(TRANSPORTS),
    stage_costs,
    st.booleans(),
)
@hypothesis_settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_happens_in_a_pause_the_client_is_told_the_same_as_without_drafts(
    turns: list[list[tuple[int, int, str, int]]], transport: TransportName, costs: tuple[float, ...], sure: bool
) -> None:
    """Pauses too short to be looked at, with events in them; then one that ends the turn, and time for the answer."""
    names = ("first_token_s", "token_s", "talk_s", "vocode_s")

    def conversation(speculate: bool) -> list[Any]:
        options = dict(zip(names, costs, strict=True)) | {"end_probability": 0.9 if sure else 0.1}
        server = serve(speculate, **options)
        session = server.connect(transport)
        for turn in turns:
            for voiced, pause, event, after in turn:
                session.say(voiced)
                server.advance(voiced + min(pause, after))
                EVENTS[event](session)
                server.advance(max(0, pause - after))
            session.say(400)
            server.advance(15_000)
        settled(server)
        return told(session)

    assert conversation(True) == conversation(False)


def test_the_same_seed_gives_the_same_trace_twice() -> None:
    def trace() -> list[tuple[int, str]]:
        server = serve(transcribe_s=0.03)
        session = server.connect()
        for pause in (90, 150, 6000):
            session.say(600)
            server.advance(600 + pause)
        return [(when, str(event)) for when, event in session.client.events]

    first = trace()
    assert first == trace()
    assert any("response.done" in event for _, event in first)
    assert all(earlier[0] <= later[0] for earlier, later in itertools.pairwise(first))
