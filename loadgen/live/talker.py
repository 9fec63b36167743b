"""One talker: what it says when, and what it makes of what it hears. Pure: `now` comes in, packets and rows go out.

    say      ····|turn 0 ~~~~|····················|turn 1 ~~~|····         packet numbers of the microphone, 20 ms each
                            └ end_at               └ start
    heard    ·······················|answer 0 -------|×··········|answer 1 ---
                            ├ ttfas ┤              ├stop┤        (×: cut; sound past it and a fade is stale)

    WAITING ─ speech begins ─► SPEAKING ─ end of energy ─► LISTENING ─ answer heard to its end, or none came ─► WAITING
       ▲                                                      │ interrupt_after_s into the answer                  │
       └──────────────────────────────────────────────────────┴──────────────── last turn: DONE ◄──────────────────┘

Every time is absolute: the microphone's packet n is captured from `base + n · 20 ms` on, whenever it leaves. TTFAS runs
from the intended end of speech on that schedule, so neither a late generator nor a stalled server hides in it.

Sound belongs to the answer that was announced last when it arrived. Where the event comes after the sound (a lost packet of
the data channel), the stretch of sound that goes on as it comes is given to the answer that it announces.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from duplex.units import MonoNs, ns_from_ms, ns_from_samples, ns_from_seconds, seconds_from_ns
from loadgen.live.answer import Answer
from loadgen.live.rows import TurnRow
from loadgen.live.sound import Sound
from loadgen.live.speech import SILENCE, Bank, Utterance
from loadgen.trace import SessionTrace, Turn

PACKET_NS = ns_from_ms(20)
_STALE_AFTER = ns_from_ms(100)
"""After the news of a cut: the fade's packet, a tick of the sender and the network's jitter are in it."""
_CLOSED_AFTER = ns_from_ms(1000)
"""After the end of an answer: what comes to the same turn later is no part of it."""
_SAME_STRETCH = ns_from_ms(200)
"""Sounds no further apart are one stretch."""
_ENDED_BY_ITSELF = ns_from_ms(1000)
"""An answer that ends uncut within this of the interrupting onset was at its end anyway."""


@dataclass(frozen=True, slots=True)
class Line:
    """One turn with the audio for it."""

    turn: Turn
    speech: Utterance
    backchannels: tuple[tuple[float, Utterance], ...]


def lines(session: SessionTrace, bank: Bank, seed: str) -> tuple[Line, ...]:
    """Cast a session's turns; the same seed gives the same audio."""
    rng = random.Random(seed)
    return tuple(
        Line(
            turn,
            bank.utterance(turn, rng),
            tuple((start, bank.backchannel(length, rng)) for start, length in turn.backchannels),
        )
        for turn in session.turns
    )


class State(enum.Enum):
    """Where the talker is in its turn."""

    WAITING = "waiting"
    SPEAKING = "speaking"
    LISTENING = "listening"
    DONE = "done"


@dataclass(slots=True)
class _Said:
    """Something on its way through the microphone."""

    first: int
    """Its first packet's number."""
    speech: Utterance

    def packet(self, number: int) -> int | None:
        at = number - self.first
        return self.speech.packets[at] if 0 <= at < len(self.speech.packets) else None


@dataclass(slots=True)
class _Exchange:
    """A turn that has begun, and the answers since."""

    number: int
    start: MonoNs
    onset: MonoNs
    end: MonoNs
    answers: list[Answer] = field(default_factory=list)
    restarts: int = 0
    stale_ns: int = 0
    interrupted_at: MonoNs | None = None
    """Onset of the next turn, where that was begun over the answer."""
    over_at: int = 0
    """When it was heard to its end, or given up."""
    told: bool = False
    """Its row is out."""

    @property
    def answer(self) -> Answer | None:
        """The one that counts: not cut before the turn had ended, and heard after it."""
        for answer in self.answers:
            if answer.first is None or answer.last is None or answer.last <= self.end:
                continue
            if answer.cut_at is not None and answer.first < self.end:
                continue
            return answer
        return None


class Talker:
    """One session of a trace.

    Args:
        session: its name in the rows.
        transport: the same.
        script: its turns.
        timeout_s: a turn without sound for this long is over.
        epoch: the run's start, 0 of the rows' times.
    """

    def __init__(
        self, *, session: str, transport: str, script: tuple[Line, ...], timeout_s: float, epoch: MonoNs
    ) -> None:
        self._session = session
        self._transport = transport
        self._script = script
        self._timeout = ns_from_seconds(timeout_s)
        self._epoch = epoch
        self._base = MonoNs(0)
        self._asked = -1
        """Newest packet of the microphone that was asked for."""
        self._said: _Said | None = None
        self._backchannels: list[_Said] = []
        self._exchange: _Exchange | None = None
        self._before: _Exchange | None = None
        """The one that was interrupted, until it is known how it stopped."""
        self._latest: Answer | None = None
        self._answers = 0
        self._orphans: list[Sound] = []
        self._rows: list[TurnRow] = []
        self._over_from: MonoNs | None = None
        """Onset of the turn that is to interrupt the answer."""
        self.state = State.WAITING

    def begin(self, base: MonoNs) -> None:
        """Open the microphone: packet 0 is captured from `base` on."""
        self._base = base
        self._plan(0, base + ns_from_seconds(self._script[0].turn.gap_s))

    @property
    def done(self) -> bool:
        """Whether everything has been said and heard."""
        return self.state is State.DONE

    # The microphone. --------------------------------------------------------------------------------------------------

    def say(self, number: int) -> int:
        """Return which packet of the bank the microphone captured as its packet `number`; each is asked for once."""
        self._asked = number
        if self._said is not None and (packet := self._said.packet(number)) is not None:
            return packet
        for said in self._backchannels:
            if (packet := said.packet(number)) is not None:
                return packet
        return SILENCE

    def _number_at(self, at: int) -> int:
        return max(-((self._base - at) // PACKET_NS), self._asked + 1)

    def _time_of(self, number: int) -> int:
        return self._base + number * PACKET_NS

    def _plan(self, turn: int, at: int) -> None:
        """Say a turn from `at` on."""
        self._said = _Said(self._number_at(at), self._script[turn].speech)
        self.state = State.WAITING

    # What happens. ------------------------------------------------------------------------------------------------------

    def tag(self, now: MonoNs) -> int:
        """Return what sound that arrives now belongs to: an answer's number, or 0."""
        answer = self._latest
        if answer is None or (answer.cut_at is not None and now > answer.cut_at + _STALE_AFTER):
            return 0
        return answer.number

    def tag_of(self, response: str) -> int:
        """Return the number of an answer by its id, or 0; one that is cut has none any more."""
        answer = self._find(response)
        return 0 if answer is None or answer.cut_at is not None else answer.number

    def event(self, event: dict[str, Any], now: MonoNs) -> None:
        """Take an event of the server's."""
        match event["type"]:
            case "response.created":
                self._announce(event["response"]["id"], now)
            case "response.done":
                status = event["response"]["status"]
                self._finish(
                    event["response"]["id"], now, cut=status == "cancelled", over=self._transport == "websocket"
                )
            case "duplex.metrics":
                answer = self._find(event["response_id"])
                if answer is not None:
                    answer.split = dict(event["split"])
            case "output_audio_buffer.stopped":
                self._finish(event["response_id"], now, cut=False, over=True)
            case "output_audio_buffer.cleared":
                self._finish(event["response_id"], now, cut=True, over=True)

    def flushed(self, now: MonoNs) -> None:
        """The client itself dropped what it had not played."""
        if self._latest is not None:
            self._cut(self._latest, now)  # though all of it was sent: a player runs behind
            if self._latest.last is not None and self._latest.last > now:
                self._latest.last = now

    def _announce(self, response: str, now: MonoNs) -> None:
        self._answers += 1
        answer = self._latest = Answer(number=self._answers, response=response)
        if self._exchange is None:
            return
        self._exchange.answers.append(answer)
        own = _run_up_to(self._orphans, now)
        for sound in self._orphans[own:]:
            answer.add(sound)
        del self._orphans[own:]

    def _find(self, response: str) -> Answer | None:
        for exchange in (self._exchange, self._before):
            for answer in exchange.answers if exchange is not None else ():
                if answer.response == response:
                    return answer
        return None

    def _finish(self, response: str, now: MonoNs, *, cut: bool, over: bool) -> None:
        answer = self._find(response)
        if answer is None:
            return
        if cut and not answer.over:
            self._cut(answer, now)
        elif over:
            answer.over = True

    def _cut(self, answer: Answer, now: MonoNs) -> None:
        if answer.cut_at is not None:
            return
        answer.cut_at = now
        if self._exchange is not None and answer in self._exchange.answers:
            self._exchange.restarts += 1

    def heard(self, sounds: Iterable[Sound]) -> None:
        """Take what has been played."""
        for sound in sounds:
            answer = self._latest if self._latest is not None and self._latest.number == sound.answer else None
            if answer is None and sound.answer:
                answer = self._numbered(sound.answer)
            if answer is not None:
                answer.add(sound)
            elif sound.level.audible is not None:
                self._orphans.append(sound)

    def _numbered(self, number: int) -> Answer | None:
        for exchange in (self._exchange, self._before):
            for answer in exchange.answers if exchange is not None else ():
                if answer.number == number:
                    return answer
        return None

    # Time. --------------------------------------------------------------------------------------------------------------

    def advance(self, now: MonoNs, drained: bool) -> None:
        """Go on to where the talker is at `now`; call every 20 ms.

        Args:
            drained: nothing that has arrived is still to be played.
        """
        if self.state is State.WAITING:
            self._wait(now)
        if self.state is State.SPEAKING:
            assert self._exchange is not None
            if now >= self._exchange.end:
                self._settle_before()
                self.state = State.LISTENING
        if self.state is State.LISTENING:
            self._listen(now, drained)

    def _wait(self, now: MonoNs) -> None:
        assert self._said is not None
        exchange = self._exchange
        start = self._time_of(self._said.first)
        if now < start:
            if exchange is not None and self._over_from is None:
                self._wait_after(exchange, now)
            return
        number = exchange.number + 1 if exchange is not None else 0
        speech = self._said.speech
        begun = _Exchange(
            number,
            MonoNs(start),
            MonoNs(start + ns_from_samples(speech.begin)),
            MonoNs(start + ns_from_samples(speech.end)),
        )
        if exchange is not None:
            if self._over_from is not None:
                exchange.interrupted_at = begun.onset
                self._before = exchange
            else:
                self._emit(exchange)
        self._exchange, self._over_from = begun, None
        self._backchannels.clear()
        self.state = State.SPEAKING

    def _wait_after(self, exchange: _Exchange, now: MonoNs) -> None:
        """Hear out what else comes to the last turn before the next is due, or close it."""
        if self._sounds_again(exchange, now):
            self._said = None
            self.state = State.LISTENING
        elif now >= exchange.over_at + _CLOSED_AFTER:
            self._emit(exchange)

    def _sounds_again(self, exchange: _Exchange, now: MonoNs) -> bool:
        latest = exchange.answers[-1] if exchange.answers else None
        return (
            latest is not None
            and latest.last is not None
            and not latest.over
            and latest.cut_at is None
            and latest.last >= now
        )

    def _listen(self, now: MonoNs, drained: bool) -> None:
        exchange = self._exchange
        assert exchange is not None
        answer = exchange.answer
        if answer is None:
            since = max([exchange.end, *(a.cut_at for a in exchange.answers if a.cut_at is not None)])
            if now >= since + self._timeout:
                self._next(now)
            return
        assert answer.first is not None and answer.last is not None
        newest = exchange.answers[-1]
        heard_until = max(a.last for a in exchange.answers if a.last is not None)
        if (
            (newest.over or newest.cut_at is not None or now >= heard_until + self._timeout)
            and drained
            and now >= heard_until
        ):
            self._next(heard_until)
            return
        self._speak_over(exchange, answer.first)

    def _speak_over(self, exchange: _Exchange, first: int) -> None:
        """Begin what the trace has the speaker do over the answer, once it is heard."""
        line = self._script[exchange.number]
        if not self._backchannels:
            for start_s, speech in line.backchannels:
                self._backchannels.append(_Said(self._number_at(first + ns_from_seconds(start_s)), speech))
        if line.turn.interrupt_after_s is None:
            return
        at = first + ns_from_seconds(line.turn.interrupt_after_s)
        if self._number_at(at) == self._asked + 1:
            speech = self._script[exchange.number + 1].speech
            self._plan(exchange.number + 1, at)
            assert self._said is not None
            onset = MonoNs(self._time_of(self._said.first) + ns_from_samples(speech.begin))
            self._over_from = onset
            for answer in exchange.answers:
                answer.talked_over_from = onset

    def _next(self, at: int) -> None:
        """Turn to the next turn after the answer was heard until `at`, or to the end."""
        assert self._exchange is not None
        self._exchange.over_at = at
        turn = self._exchange.number + 1
        if turn == len(self._script):
            self._emit(self._exchange)
            self.state = State.DONE
            return
        self._plan(turn, at + ns_from_seconds(self._script[turn].turn.gap_s))

    # Rows. --------------------------------------------------------------------------------------------------------------

    def poll(self) -> list[TurnRow]:
        """Return the rows of turns about which all is known; each once."""
        rows, self._rows = self._rows, []
        return rows

    def lost(self, now: MonoNs) -> None:
        """The session broke: what was under way, or would have come next, is lost."""
        if self.done:
            return
        self._settle_before()
        exchange = self._exchange
        if exchange is None or (self.state is State.WAITING and self._over_from is None):
            if exchange is not None:
                self._emit(exchange)
            number = exchange.number + 1 if exchange is not None else 0
            at = MonoNs(max(now, self._base))
            exchange = _Exchange(number, at, at, at)
        untold = not exchange.told
        self._emit(exchange)
        if untold and exchange.answer is None:
            self._rows[-1].status = "lost"
        self.state = State.DONE

    def stop(self) -> None:
        """The run ends: what is not over is not counted."""
        if self.state is State.WAITING and self._exchange is not None and self._over_from is None:
            self._emit(self._exchange)
        self.state = State.DONE

    def _settle_before(self) -> None:
        """Close the interrupted exchange, as the turn that interrupted it has been said."""
        if self._before is not None:
            self._before.stale_ns += sum(sound.end - sound.start for sound in self._orphans)
            self._emit(self._before)
        self._before = None
        self._orphans.clear()

    def _emit(self, exchange: _Exchange) -> None:
        if exchange.told:
            return
        exchange.told = True
        row = TurnRow(
            session=self._session, turn=exchange.number, transport=self._transport,
            end_at_s=seconds_from_ns(exchange.end - self._epoch), restarts=exchange.restarts,
            stale_s=seconds_from_ns(exchange.stale_ns),
        )  # fmt: skip
        row.done_at_s = max(row.end_at_s, seconds_from_ns(self._time_of(self._asked) - self._epoch))
        answer = exchange.answer
        if answer is not None:
            assert answer.first is not None and answer.last is not None
            row.status = "answered"
            row.early = answer.first < exchange.end
            row.ttfas_s = None if row.early else seconds_from_ns(answer.first - exchange.end)
            row.answer_s = seconds_from_ns(answer.last - answer.first)
            row.underruns, row.underrun_s = answer.gaps, seconds_from_ns(answer.gap_ns)
            row.underrun_s_max, row.concealed_s = (
                seconds_from_ns(answer.gap_ns_max),
                seconds_from_ns(answer.concealed_ns),
            )
            row.split = answer.split
            _note_stop(row, answer, exchange.interrupted_at)
        self._rows.append(row)


def _run_up_to(sounds: list[Sound], now: MonoNs) -> int:
    """Return where the stretch of sound begins that goes on until now; the length of the list when none does."""
    at, until = len(sounds), int(now)
    while at and sounds[at - 1].end + _SAME_STRETCH >= until:
        at -= 1
        until = sounds[at].start
    return at


def _note_stop(row: TurnRow, answer: Answer, onset: MonoNs | None) -> None:
    assert answer.last is not None
    if onset is None or answer.last <= onset:
        return
    if answer.cut_at is not None:
        row.interrupted, row.stop_s = True, seconds_from_ns(answer.last - onset)
    elif answer.last - onset > _ENDED_BY_ITSELF:
        row.interrupted = True
