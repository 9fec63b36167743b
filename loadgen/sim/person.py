"""A simulated person: plays one session of a trace, listens, interrupts, and writes down what was heard of each turn."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duplex.units import MonoNs, Samples, ns_from_ms, ns_from_seconds, seconds_from_ns
from loadgen.sim.network import Path
from loadgen.sim.session import Ears, SimSession
from loadgen.trace import SessionTrace, Turn

if TYPE_CHECKING:
    from loadgen.sim.world import World


@dataclass(slots=True, kw_only=True)
class TurnRow:
    """One turn, as its speaker experienced it."""

    session: str
    turn: int
    tenant: str
    ended_s: float
    """When the user's speech ended."""
    ttfas_s: float | None = None
    """From then to the first audible sample of an answer; None: none came."""
    gaps: int = 0
    """Silences inside the answer."""
    gap_s: float = 0.0
    gap_max_s: float = 0.0
    heard_s: float = 0.0
    """Answer heard, gaps not counted."""
    stop_s: float | None = None
    """From the onset of an interruption to the last audible sample of the answer."""
    split: dict[str, float] = field(default_factory=dict)
    """The server's own parts of it, in seconds."""
    refused: bool = False
    cut_short: bool = False
    """Its caller hung up before it, or in the middle of it."""


class Person:
    """One caller.

    Args:
        patience_s: how long an answer is waited for before the next turn.
    """

    def __init__(self, world: World, trace: SessionTrace, number: int, rng: random.Random, patience_s: float) -> None:
        self.trace = trace
        self.rows: list[TurnRow] = []
        self.gone = False
        self._rng = rng
        self._world = world
        self._clock = world.clock
        self._patience_ns = ns_from_seconds(patience_s)
        self._turn = -1
        self._speech_end = MonoNs(0)
        self._unsure = 0
        """Times that the end-of-turn model will not see the end of this turn."""
        self._answer: str | None = None
        self._interruption: tuple[str, MonoNs] | None = None
        """The newest reply that is spoken over, and when; it stands while that reply is being cut."""
        ears = Ears(
            first_sound=self._first_sound, last_sound=self._last_sound, split=self._split, broken_off=self._broken_off
        )
        self.session = SimSession(world, number, trace.tenant, Path(world.network, rng), ears)
        self._speak_after(self._next_turn.gap_s)

    @property
    def turn(self) -> Turn:
        """The turn that is spoken or answered."""
        return self.trace.turns[max(0, self._turn)]

    @property
    def _next_turn(self) -> Turn:
        return self.trace.turns[self._turn + 1]

    def judged_finished(self, heard: Samples) -> bool:
        """Return what an end-of-turn model says of the turn, heard so far; one that knew would say whether it is over."""
        if heard < self.session.microphone.position(self._speech_end):
            hasty = self._world.profile.hearing.hasty
            return hasty > 0 and self._rng.random() < hasty
        self._unsure -= 1
        return self._unsure < 0

    def interrupts_at(self, reply: str) -> MonoNs | None:
        """Return when this person will speak over a reply that has begun to sound; None if never."""
        interruption = self._interruption
        return interruption[1] if interruption is not None and interruption[0] == reply else None

    def vanish(self) -> None:
        """Hang up in the middle of it."""
        if self.rows and not self.gone:
            self.rows[-1].cut_short = True
        self.leave()

    def leave(self) -> None:
        """Hang up."""
        if not self.gone:
            self.gone = True
            self._settle()
            self.session.close()
            self._world.left(self)

    # Speaking. ------------------------------------------------------------------------------------------------------

    def _speak_after(self, gap_s: float) -> None:
        turn = self._turn
        self._clock.after(gap_s, lambda: self._speak() if self._turn == turn else None)

    def _speak(self) -> None:
        """Begin the next turn."""
        if self.gone:
            return
        now = self._clock.now()
        self._settle()
        self._turn += 1
        turn = self.turn
        self._answer = None
        self._speech_end = MonoNs(now + ns_from_seconds(turn.speech_s))
        voice_from = now
        for start, length in turn.pauses:
            self.session.microphone.speak(voice_from, MonoNs(now + ns_from_seconds(start)))
            voice_from = MonoNs(now + ns_from_seconds(start + length))
        self.session.microphone.speak(voice_from, self._heard_end())
        self._world.kv.speech_began(self.session.id, now)
        row = TurnRow(
            session=self.trace.session,
            turn=self._turn,
            tenant=self.trace.tenant,
            ended_s=seconds_from_ns(self._speech_end),
        )
        self.rows.append(row)
        number = self._turn
        self._clock.call_at(MonoNs(self._speech_end + self._patience_ns), lambda: self._impatient(number))

    def _heard_end(self) -> MonoNs:
        """Draw where the VAD will see the end of this turn, and how soon the end-of-turn model."""
        hearing = self._world.profile.hearing
        if hearing.unsure:
            drawn = self._rng.random()
            self._unsure = sum(drawn < share for share in hearing.unsure)
        tail = self._rng.choice(hearing.tail_ms) if hearing.tail_ms else 0.0
        return MonoNs(self._speech_end + ns_from_ms(tail))

    def _impatient(self, number: int) -> None:
        if not self.gone and self._turn == number and self._answer is None:
            self._go_on()

    def _go_on(self) -> None:
        """The turn is over: think, and speak again, or leave."""
        if self._turn + 1 < len(self.trace.turns):
            self._speak_after(self._next_turn.gap_s)
        else:
            self._clock.after(0.5, self.leave)

    # Listening. -----------------------------------------------------------------------------------------------------

    def _first_sound(self, reply: str, when: MonoNs) -> None:
        if self.gone or self._turn < 0 or when < self._speech_end or self._answer is not None:
            return  # an answer to half a turn: it will be cut by the rest of it
        self._answer = reply
        row = self.rows[-1]
        row.ttfas_s = seconds_from_ns(MonoNs(when - self._speech_end))
        turn = self.turn
        if turn.interrupt_after_s is not None:
            at = MonoNs(when + ns_from_seconds(turn.interrupt_after_s))
            self._interruption = reply, at
            self._clock.call_at(at, lambda: self._interrupt(reply))
        for start, length in turn.backchannels:
            at = MonoNs(when + ns_from_seconds(start))
            self._clock.call_at(at, lambda at=at, length=length: self._backchannel(reply, at, length))  # type: ignore[misc]

    def _backchannel(self, reply: str, at: MonoNs, length: float) -> None:
        if not self.gone and reply == self._answer and not self._over(reply):
            self.session.microphone.speak(at, MonoNs(at + ns_from_seconds(length)))

    def _interrupt(self, reply: str) -> None:
        if not self.gone and reply == self._answer and not self._over(reply):
            onset = self._clock.now()
            row = self.rows[-1]
            self._speak()
            self._clock.after(2.0, lambda: self._stopped(row, reply, onset))

    def _stopped(self, row: TurnRow, reply: str, onset: MonoNs) -> None:
        heard = self.session.listener.replies.get(reply)
        if heard is not None:
            row.stop_s = max(0.0, seconds_from_ns(MonoNs(heard.ends - onset)))
            self._note(row, reply)

    def _over(self, reply: str) -> bool:
        heard = self.session.listener.replies.get(reply)
        return heard is not None and heard.complete and heard.ends <= self._clock.now()

    def _last_sound(self, reply: str, when: MonoNs) -> None:
        if self.gone or reply != self._answer:
            return
        number = self._turn

        def over() -> None:
            if self._turn == number and not self.gone:
                self._go_on()

        self._clock.call_at(when, over)

    def _split(self, reply: str, split: dict[str, float]) -> None:
        if reply == self._answer:
            self.rows[-1].split = split

    def _broken_off(self, reply: str) -> None:
        """An answer that breaks off is over where it does; the interrupted ones are not this person's answer any more."""
        if reply == self._answer:
            heard = self.session.listener.replies.get(reply)
            if heard is not None and not heard.complete:
                heard.complete = True
                self._last_sound(reply, heard.ends)

    def _settle(self) -> None:
        """The present turn is over: write down what was heard of its answer."""
        if self.rows:
            if self._answer is not None:
                self._note(self.rows[-1], self._answer)
            self._world.turn_over(self.rows[-1])

    def _note(self, row: TurnRow, reply: str) -> None:
        heard = self.session.listener.replies.get(reply)
        if heard is None:
            return
        gaps = [seconds_from_ns(MonoNs(gap)) for gap in heard.gaps_ns]
        row.gaps, row.gap_s, row.gap_max_s = len(gaps), sum(gaps), max(gaps, default=0.0)
        row.heard_s = seconds_from_ns(MonoNs(heard.ends - heard.began)) - row.gap_s
