"""The simulated ear of the server: what a person says becomes VAD windows for the session core, as few as will do.

Windows are 32 ms on the session's grid. Around the moments that decide (an onset, a pause, an end) each is told by itself;
in the middle of speech they are told in spans of 256 ms, and silence that nobody waits for is not told at all.
"""

from __future__ import annotations

from collections.abc import Callable

from duplex.session.messages import Heard
from duplex.units import MonoNs, Samples, Span, ns_from_ms, samples_from_ns
from loadgen.sim.clock import Clock

WINDOW_NS = ns_from_ms(32)
WINDOW = Samples(1536)
_SINGLE = 14
"""Windows told one by one after a change: 448 ms."""
_GROUP = 8
_LINGER_NS = ns_from_ms(1500)
"""Silence after speech that is told even if the core ignores it: a pending onset is settled by it."""
VOICE, SILENCE = 0.95, 0.02


class Microphone:
    """One session's input.

    Args:
        delay_ns: from the end of a window at the client until its verdict.
        hear: takes each span.
        ignores: whether silence changes nothing for the core.
    """

    def __init__(self, clock: Clock, delay_ns: int, hear: Callable[[Heard], None], ignores: Callable[[], bool]) -> None:
        self._clock = clock
        self._delay_ns = delay_ns
        self._hear = hear
        self._ignores = ignores
        self._origin = clock.now()
        self._voiced: list[tuple[int, int]] = []
        """(start, end) of voice, in ns of the client's clock, still to come or under way."""
        self._told = 0
        """Windows told so far."""
        self._changed = 0
        """Window at which voice last began or ended."""
        self._was_voice = False
        self._quiet_since = 0
        self._running = False
        self._closed = False

    def speak(self, start: MonoNs, end: MonoNs) -> None:
        """Voice sounds from `start` to `end` (not before what was said already)."""
        self._voiced.append((start, end))
        if not self._running:
            self._running = True
            first = max(self._told, (start - self._origin) // WINDOW_NS)
            self._at(first + 1, first)

    def close(self) -> None:
        """Nobody speaks here any more."""
        self._closed = True

    def position(self, when: MonoNs) -> Samples:
        """Return the input position of a moment."""
        return samples_from_ns(MonoNs(when - self._origin))

    def _at(self, end: int, silent_until: int) -> None:
        """Tell windows up to number `end` when the last one's verdict is there; before `silent_until` there is no voice."""
        when = MonoNs(self._origin + end * WINDOW_NS + self._delay_ns)
        self._clock.call_at(when, lambda: self._tell(end, silent_until))

    def _tell(self, end: int, silent_until: int) -> None:
        if self._closed:
            return
        if silent_until > self._told:
            self._span(self._told, silent_until, voice=False)
        voice = self._is_voice(end - 1)
        if voice != self._was_voice:
            self._changed = end - 1
            self._was_voice = voice
            if not voice:
                self._quiet_since = self._origin + (end - 1) * WINDOW_NS
        self._span(self._told, end, voice)
        self._next(end, voice)

    def _next(self, end: int, voice: bool) -> None:
        now = self._origin + end * WINDOW_NS
        self._voiced = [span for span in self._voiced if span[1] > now]
        if not voice and now - self._quiet_since > _LINGER_NS and self._ignores():
            if not self._voiced:
                self._running = False
                return
            first = max(end, (self._voiced[0][0] - self._origin) // WINDOW_NS)
            self._at(first + 1, first)
            return
        waited_for = not voice and not self._ignores()  # a turn whose end is not decided yet
        step = 1 if waited_for or end - self._changed < _SINGLE else _GROUP
        while step > 1 and not self._same(end, step, voice):
            step = 1
        self._at(end + step, end)

    def _same(self, first: int, count: int, voice: bool) -> bool:
        return all(self._is_voice(n) == voice for n in range(first, first + count))

    def _is_voice(self, number: int) -> bool:
        start = self._origin + number * WINDOW_NS
        middle = start + WINDOW_NS // 2
        return any(begin <= middle < until for begin, until in self._voiced)

    def _span(self, first: int, last: int, voice: bool) -> None:
        if last <= first:
            return
        self._told = last
        span = Span(Samples(first * WINDOW), Samples(last * WINDOW))
        self._hear(Heard(span=span, probability=VOICE if voice else SILENCE, arrived=self._clock.now()))
