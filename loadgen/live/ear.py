"""A model of a browser's jitter buffer: when would what arrives be heard?

    arrive ──► target depth (from inter-arrival jitter) ──► playout clock ──► advance: sounds with their times

    answer begins   its first packet plays one target depth after it came, the others follow by their timestamps
    late packet     plays when it comes: the clock is that much later from then on (an underrun)
    lost packet     its time is concealed once a later packet is due; the clock goes on
    too deep        speech is shortened by up to 10 % until the depth is the target again

The target is the 95th percentile of how late packets come after the quickest of the last two seconds, in steps of 20 ms,
forgotten at 0.983 per packet: NetEq's own parameters. On a loopback the target is one step; the mean wait that Chromium
reports there is 23 ms. What NetEq does besides (comfort noise, stretching speech before it runs dry, RTX) is not modelled.

Pure: no clock, no codec; the level of each packet comes in with it.

Source: libwebrtc `modules/audio_coding/neteq` (`DelayManager`, `DecisionLogic`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from duplex.units import MonoNs, Unwrapper, ns_from_ms
from loadgen.live.sound import SILENT, Level, Sound

_PACKET = ns_from_ms(20)
_STEP = ns_from_ms(20)
_QUANTILE = 0.95
_FORGET = 0.983
_WINDOW = 100
"""Packets among which the quickest is sought: two seconds."""
_DEPTH_MAX = ns_from_ms(500)
_BUCKETS = _DEPTH_MAX // _STEP
_SLACK = ns_from_ms(20)
"""Depth over the target that is left alone."""
_SHORTEN = ns_from_ms(2)
"""Of a packet of 20 ms."""
_CONCEAL_MAX = ns_from_ms(200)
"""Past it the ear hears silence."""
_RESTART = ns_from_ms(1000)
"""A packet later than this begins anew instead of shifting the clock."""
_NS_PER_TICK = 1_000_000_000 / 48_000


class DelayTarget:
    """How deep the buffer should be."""

    def __init__(self) -> None:
        self._transits: deque[int] = deque(maxlen=_WINDOW)
        self._quickest = 0
        self._weights = [0.0] * _BUCKETS
        self._weights[0] = 1.0
        self.depth: int = _STEP
        """In ns."""

    def take(self, transit: int) -> None:
        """Take a packet's transit time (arrival − timestamp, any origin) in ns."""
        full = len(self._transits) == _WINDOW
        leaving = self._transits[0] if full else None
        self._transits.append(transit)
        if len(self._transits) == 1 or transit < self._quickest:
            self._quickest = transit
        elif leaving == self._quickest:
            self._quickest = min(self._transits)
        bucket = min((transit - self._quickest) // _STEP, _BUCKETS - 1)
        if bucket == 0 and self._weights[0] > 0.999:
            return  # the quiet network's packet changes nothing
        weights = [weight * _FORGET for weight in self._weights]
        weights[bucket] += 1 - _FORGET
        self._weights = weights
        self.depth = (self._quantile() + 1) * _STEP

    def _quantile(self) -> int:
        total = 0.0
        for bucket, weight in enumerate(self._weights):
            total += weight
            if total >= _QUANTILE:
                return bucket
        return _BUCKETS - 1


@dataclass(frozen=True, slots=True)
class _Packet:
    media: int
    """Its timestamp in ns, unwrapped."""
    level: Level
    answer: int
    arrived: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EarStats:
    """Counts since the call began."""

    played: int
    lost: int
    """Never came, or too late."""
    late: int
    """Came after their time was filled."""
    depth_ms: float
    """Mean wait of a packet."""
    target_ms: float


class Ear:
    """One call's ear."""

    def __init__(self) -> None:
        self._target = DelayTarget()
        self._held: dict[int, _Packet] = {}
        self._next: int | None = None
        """Sequence number that plays next, extended."""
        self._seq = Unwrapper(16)
        self._ticks = Unwrapper(32)
        self._origin = 0
        """ns to add to a packet's media time for its playing time."""
        self._cursor = 0
        """End of what has been played."""
        self._flowing = False
        """What played last was content: its sequel has a time of its own."""
        self._played = self._lost = self._late = 0
        self._waited = 0

    def arrive(self, rtp_seq: int, rtp_ts: int, level: Level, answer: int, now: MonoNs) -> None:
        """Take a packet.

        Args:
            rtp_seq, rtp_ts: as on the wire; 48 kHz.
            level: of its 20 ms; `SILENT` for DTX.
            answer: passed on with its sound.
        """
        seq, ticks = self._seq.unwrap(rtp_seq), self._ticks.unwrap(rtp_ts)
        if self._next is None:
            self._next = seq
        media = round(ticks * _NS_PER_TICK)
        self._target.take(now - media)
        if seq < self._next:
            self._late += 1
            return
        self._held.setdefault(seq, _Packet(media, level, answer, now))

    def advance(self, now: MonoNs) -> list[Sound]:
        """Return what has begun to play by `now`, in order; call at least every 20 ms."""
        sounds: list[Sound] = []
        while self._held:
            assert self._next is not None
            packet = self._held.get(self._next)
            if packet is None:
                if not self._skip(now, sounds):
                    break
            elif not self._play(packet, now, sounds):
                break
        return sounds

    @property
    def drained(self) -> bool:
        """Whether everything that came has begun to play."""
        return not self._held

    def stats(self) -> EarStats:
        """Return the counts."""
        mean = self._waited / self._played / 1e6 if self._played else 0.0
        return EarStats(
            played=self._played, lost=self._lost, late=self._late, depth_ms=mean, target_ms=self._target.depth / 1e6
        )

    def _play(self, packet: _Packet, now: MonoNs, sounds: list[Sound]) -> bool:
        due = self._due(packet)
        if due > now:
            return False
        wait = due - packet.arrived
        length = _PACKET
        if packet.level.content and wait > self._target.depth + _SLACK:
            self._origin -= _SHORTEN
            length -= _SHORTEN
        sounds.append(Sound(MonoNs(due), MonoNs(due + length), packet.level, packet.answer))
        assert self._next is not None
        del self._held[self._next]
        self._next += 1
        self._cursor = due + length
        self._flowing = packet.level.content
        self._played += 1
        self._waited += wait
        return True

    def _due(self, packet: _Packet) -> int:
        """Return when a packet plays; moves the clock where it has to."""
        due = packet.media + self._origin
        if not self._flowing or packet.arrived - due > _RESTART:
            due = packet.arrived + self._target.depth
        due = max(due, packet.arrived, self._cursor)
        self._origin = due - packet.media
        return due

    def _skip(self, now: MonoNs, sounds: list[Sound]) -> bool:
        """Give up packets that are missing before the next one held, once that one is due; conceal their time."""
        assert self._next is not None
        following = min(self._held)
        packet = self._held[following]
        due = max(packet.media + self._origin, packet.arrived) if self._flowing else packet.arrived + self._target.depth
        if due > now:
            return False
        self._lost += following - self._next
        if self._flowing and due > self._cursor:
            end = min(due, self._cursor + _CONCEAL_MAX)
            sounds.append(Sound(MonoNs(self._cursor), MonoNs(end), SILENT, packet.answer, concealed=True))
        self._next = following
        return True
