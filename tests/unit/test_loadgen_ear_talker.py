"""The talker on a clock of the test's own: what it says when, and what it notes of what it hears."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from duplex.units import MonoNs, Samples, ns_from_ms
from loadgen.live.rows import TurnRow
from loadgen.live.sound import Level, Sound
from loadgen.live.speech import SILENCE, Utterance
from loadgen.live.talker import PACKET_NS, Line, State, Talker
from loadgen.trace import Turn

pytestmark = pytest.mark.unit

LOUD = Level((0.0, 1.0), True)
VOICE = 7
"""A packet number of the bank."""


def line(gap_s: float = 0.2, speech_s: float = 1.0, **fields: Any) -> Line:
    """A turn whose energy begins 20 ms into its speech and ends 40 ms before its end."""
    turn = Turn(gap_s=gap_s, speech_s=speech_s, words=3, answer_words=10, **fields)
    count = round(speech_s / 0.02)
    speech = Utterance((VOICE,) * count, Samples(960), Samples(960 * (count - 2)))
    channels = tuple(
        (start, Utterance((VOICE + 1,) * round(length / 0.02), Samples(0), Samples(960)))
        for start, length in turn.backchannels
    )
    return Line(turn, speech, channels)


class Room:
    """A talker and a server whose sound is heard as it comes."""

    def __init__(self, *script: Line, transport: str = "webrtc") -> None:
        self.base = MonoNs(5_000_000_000)
        self.talker = Talker(session="s", transport=transport, script=script, timeout_s=3.0, epoch=self.base)
        self.talker.begin(self.base)
        self.said: list[int] = []
        self.rows: list[TurnRow] = []
        self.sounding = False
        self._ids = itertools.count(1)
        self.response = ""

    @property
    def now(self) -> MonoNs:
        return MonoNs(self.base + len(self.said) * PACKET_NS)

    @property
    def now_s(self) -> float:
        return len(self.said) * 0.02

    def beat(self) -> None:
        self.said.append(self.talker.say(len(self.said)))
        if self.sounding:
            self.talker.heard([Sound(MonoNs(self.now - PACKET_NS), self.now, LOUD, self.talker.tag(self.now))])
        self.talker.advance(self.now, drained=not self.sounding)
        self.rows += self.talker.poll()

    def until(self, seconds: float) -> None:
        while self.now_s < seconds - 1e-9:
            self.beat()

    def announce(self) -> str:
        self.response = f"r{next(self._ids)}"
        self.talker.event({"type": "response.created", "response": {"id": self.response}}, self.now)
        return self.response

    def sound(self, seconds: float) -> None:
        self.sounding = True
        self.until(self.now_s + seconds)
        self.sounding = False

    def tell(self, kind: str) -> None:
        self.talker.event({"type": f"output_audio_buffer.{kind}", "response_id": self.response}, self.now)

    def done(self, status: str = "completed") -> None:
        self.talker.event({"type": "response.done", "response": {"id": self.response, "status": status}}, self.now)


def test_speech_begins_after_its_gap_and_ttfas_runs_from_its_intended_end() -> None:
    room = Room(line())
    room.until(1.5)
    assert room.said.index(VOICE) == 10
    assert room.said.count(VOICE) == 50
    room.announce()
    room.sound(2.0)
    room.tell("stopped")
    room.until(4.0)
    assert room.talker.done
    [row] = room.rows
    assert row.status == "answered"
    assert row.end_at_s == pytest.approx(0.2 + 0.96)
    assert row.ttfas_s == pytest.approx(1.5 - 1.16)
    assert row.answer_s == pytest.approx(2.0)
    assert (row.underruns, row.interrupted, row.stale_s, row.early) == (0, False, 0.0, False)


def test_the_next_gap_runs_from_the_end_of_the_answer_as_it_was_heard() -> None:
    room = Room(line(), line(gap_s=0.5))
    room.until(1.5)
    room.announce()
    room.sound(1.0)
    room.until(2.6)
    room.tell("stopped")
    room.until(3.2)
    second = room.said.index(VOICE, 70)
    assert second == 150  # 1.5 + 1.0 heard + 0.5 of gap
    assert len(room.rows) == 1


def test_an_answer_that_never_comes_is_unanswered_after_the_timeout_and_the_talker_goes_on() -> None:
    room = Room(line(), line())
    room.until(1.16 + 3.0 + 0.5)
    assert room.rows[0].status == "unanswered"
    assert room.rows[0].ttfas_s is None
    assert room.talker.state is State.SPEAKING


def interrupted(room: Room) -> None:
    """Let the talker interrupt one second into the answer, and hear 0.4 s more until it is cut."""
    room.until(1.5)
    room.announce()
    room.sound(1.0 + 0.02 + 0.4)


def test_an_interruption_is_measured_from_its_onset_to_the_last_sample() -> None:
    room = Room(line(interrupt_after_s=1.0), line())
    interrupted(room)
    room.tell("cleared")
    room.sound(0.02)
    room.until(4.0)
    [row] = room.rows
    assert row.interrupted
    # The onset is 1.02 s into the answer, which went on for 1.44 s.
    assert row.stop_s == pytest.approx(0.42)
    assert row.stale_s == 0.0


def test_sound_well_after_the_cut_is_stale() -> None:
    room = Room(line(interrupt_after_s=1.0), line())
    interrupted(room)
    room.tell("cleared")
    room.until(room.now_s + 0.2)
    room.sound(0.1)
    room.until(4.0)
    [row] = room.rows
    assert row.stale_s == pytest.approx(0.1)
    assert row.stop_s == pytest.approx(0.4)


def test_an_answer_that_goes_on_over_the_interruption_was_not_stopped() -> None:
    room = Room(line(interrupt_after_s=0.5), line(speech_s=2.0))
    room.until(1.5)
    room.announce()
    room.sound(3.5)
    [row] = room.rows
    assert row.interrupted
    assert row.stop_s is None


def test_an_answer_that_ends_before_the_interruption_is_not_interrupted() -> None:
    room = Room(line(interrupt_after_s=2.0), line(gap_s=1.0))
    room.until(1.5)
    room.announce()
    room.sound(1.0)
    room.tell("stopped")
    room.until(4.0)
    [row] = room.rows
    assert not row.interrupted
    assert room.said.index(VOICE, 70) == 175  # 2.5 + the gap


def test_an_answer_cut_before_the_turn_had_ended_is_a_restart_and_ttfas_is_that_of_the_next() -> None:
    room = Room(line(speech_s=2.0))
    room.until(1.0)
    room.announce()
    room.sound(0.3)
    room.tell("cleared")
    room.until(2.6)
    room.announce()
    room.sound(1.0)
    room.tell("stopped")
    room.until(4.0)
    [row] = room.rows
    assert row.restarts == 1
    assert row.ttfas_s == pytest.approx(2.6 - 2.16)


def test_an_answer_that_begins_before_the_end_and_goes_on_is_early() -> None:
    room = Room(line())
    room.until(1.0)
    room.announce()
    room.sound(1.0)
    room.tell("stopped")
    room.until(3.0)
    [row] = room.rows
    assert row.early
    assert row.ttfas_s is None


def test_sound_that_comes_before_its_event_belongs_to_the_answer_it_announces() -> None:
    room = Room(line())
    room.until(1.5)
    room.sound(0.3)
    room.announce()
    room.sound(0.7)
    room.tell("stopped")
    room.until(3.0)
    [row] = room.rows
    assert row.ttfas_s == pytest.approx(1.5 - 1.16)
    assert row.answer_s == pytest.approx(1.0)


def test_backchannels_are_said_into_the_answer() -> None:
    room = Room(line(backchannels=((0.5, 0.2),)))
    room.until(1.5)
    room.announce()
    room.sound(2.0)
    assert room.said.index(VOICE + 1) == 100
    assert room.said.count(VOICE + 1) == 10
    assert room.talker.state is State.LISTENING


def test_a_second_answer_to_the_same_turn_is_heard_out_before_the_next_turn() -> None:
    room = Room(line(), line(gap_s=1.0))
    room.until(1.5)
    room.announce()
    room.sound(0.5)
    room.tell("stopped")
    room.until(2.5)
    room.announce()
    room.sound(2.0)
    room.tell("stopped")
    room.until(6.0)
    assert room.said.index(VOICE, 70) == 275  # 4.5 + the gap


def test_a_websocket_player_that_is_emptied_stops_the_answer() -> None:
    room = Room(line(interrupt_after_s=1.0), line(), transport="websocket")
    room.until(1.5)
    response = room.announce()
    room.done()
    assert room.talker.tag_of(response) == 1
    room.sound(1.0 + 0.02 + 0.3)
    room.talker.flushed(MonoNs(room.now - ns_from_ms(10)))
    assert room.talker.tag_of(response) == 0
    room.until(4.5)
    [row] = room.rows
    assert row.stop_s == pytest.approx(0.29)


def test_a_session_that_breaks_loses_the_turn_under_way() -> None:
    room = Room(line(), line())
    room.until(1.3)
    room.talker.lost(room.now)
    [row] = room.talker.poll()
    assert row.status == "lost"
    assert room.talker.done


def test_a_run_that_ends_counts_no_turn_that_was_not_over() -> None:
    room = Room(line(), line())
    room.until(1.3)
    room.talker.stop()
    assert room.talker.poll() == []


def test_between_turns_the_microphone_says_nothing_and_is_never_shut() -> None:
    room = Room(line())
    room.until(2.0)
    assert set(room.said) == {SILENCE, VOICE}
    assert len(room.said) == 100
