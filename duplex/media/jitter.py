"""The receive jitter buffer: what a session hears, in order and without holes, decided on `now` alone.

A server does not play what it receives, so it need not hold packets back to play them evenly. A packet that follows
the one before it is given on at once; only what is missing is waited for. The buffer has two clocks to keep to:

    arrival   ──1──2──────4──5──6─────────────────9──►      3 lost, 7 and 8 late
    given on  ──1──2──────┄┄┄(3)4 5 6──────c──s──7 8 9►      (3) FEC after `depth`; c concealed, s declared silent

- a hole with packets behind it is given up `depth` after they came, and is filled by FEC, concealment or silence;
- with nothing behind, time that has passed is concealed, then declared silent, once the next packet is `depth` late, and
  no sooner than `late_ms` unless the sender said that silence follows: most such packets are late, not lost, and what
  is made up before them reaches the ear as a stretched sound ("hot" becomes "heart"). A packet that comes after that is
  still heard: what was filled counts against the gap before it, so a stall costs no speech. What is then given on beyond real time is taken back in quiet packets (`Play.quiet`), or, past a bound, by
  dropping one; the same the other way round follows a sender whose clock is slow.

`depth` follows measured jitter (95th percentile over the last packets) between its bounds. Delay after one loss is 0
again as soon as the hole is given up.

All lengths are samples at 48 kHz, whatever the RTP clock. Sequence numbers and timestamps are compared modulo their
width, so that wrapping changes nothing.

Source: RFC 3550 §5.1 and appendix A.1; RFC 7587 §4.1 (DTX: timestamps jump while sequence numbers do not).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from duplex.units import POSITION_RATE, MonoNs, ns_from_ms, ns_from_samples, samples_from_ms, samples_from_ns

TICK = 960
"""Time passes in steps of 20 ms."""
_FINEST = 120
"""Fills are whole multiples of 2.5 ms, as Opus wants them."""
_TRANSITS_KEPT = 100
_MEASURE_EVERY = 10
_LATE_PERCENTILE = 0.95
_HELD_MAX = 256
_MISORDER_MAX = 100
_DROPOUT_MAX = 3000
_LATE_RUN = 25
_SOFT = samples_from_ms(40)
_SHIFT = samples_from_ms(200)
"""A packet this late after time was filled means another path or a stopped clock: what was measured is void."""
_JUMP = samples_from_ms(1000)
"""A timestamp further ahead than time has passed by this much is a restart of the sender's clock, not silence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A packet of audio as it came."""

    rtp_seq: int
    rtp_ts: int
    ssrc: int
    payload: bytes
    duration: int
    """Samples at 48 kHz that the payload holds, ≥ 1."""
    dtx: bool = False
    """The sender says that silence follows (Opus: a payload of at most 2 bytes)."""
    received: MonoNs = MonoNs(0)
    """When it came in; carried for whoever plays it."""


class Quiet(Enum):
    """What may be done with a packet that proves quiet once decoded."""

    KEEP = 0
    SKIP = 1
    """Leave it out: more was given on than time has passed."""
    DOUBLE = 2
    """Declare as much silence after it: less was given on than time has passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """Decode this packet."""

    packet: Arrival
    quiet: Quiet = Quiet.KEEP


@dataclass(frozen=True, slots=True, kw_only=True)
class Recover:
    """Decode the `duration` lost just before `packet` from its FEC; `packet` itself comes next."""

    packet: Arrival
    duration: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Conceal:
    """Continue the last sound."""

    duration: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Nothing was sent, or it is lost beyond concealment."""

    duration: int


Step = Play | Recover | Conceal | Silence


def _signed16(distance: int) -> int:
    return (distance + 0x8000) % 0x10000 - 0x8000


def _signed32(distance: int) -> int:
    return (distance + 0x80000000) % 0x100000000 - 0x80000000


@dataclass(frozen=True, slots=True, kw_only=True)
class JitterStats:
    """Counts since the start: pushed = played + late + duplicates + dropped + held."""

    pushed: int
    played: int
    late: int
    duplicates: int
    dropped: int
    """Given up to bound the buffer, to follow the clock, or at a restart of the sender."""
    held: int
    lost: int
    """Packets never seen whose place was given up."""
    filled: int
    """Samples concealed, recovered or declared silent."""
    concealed: int
    """Of these, samples that the decoder made up: concealed, or recovered from FEC."""
    restarts: int
    depth_ms: float


class JitterBuffer:
    """The jitter buffer of one peer; see the module.

    Args:
        now: when the session began to hear; time before the first packet is silent.
        clock_rate: of RTP timestamps.
        depth_ms_min, depth_ms_max: bounds of the wait for what is missing. The buffer holds no more media than the
            latter; past it the oldest hole is given up.
        late_ms: least wait for a packet with nothing behind it.
        conceal_ms_max: concealed at a stretch before silence is declared.
    """

    def __init__(
        self, *, now: MonoNs, clock_rate: int, depth_ms_min: int, depth_ms_max: int, late_ms: int, conceal_ms_max: int
    ) -> None:
        self._scale = POSITION_RATE // clock_rate
        self._depth_min = ns_from_ms(depth_ms_min)
        self._depth_max = ns_from_ms(max(depth_ms_max, depth_ms_min))
        self._late_wait = ns_from_ms(late_ms)
        self._conceal_max = samples_from_ms(conceal_ms_max)
        self._depth = self._depth_min
        self._epoch = now
        self._anchor = now
        """Arrival of the last packet given on."""
        self._emitted = 0
        self._queued = 0
        """Of these, in packets that `poll` has yet to yield."""
        self._period = TICK
        """Until the packet after that one is due: its duration, at least a tick."""
        self._filled = 0
        """Given on since that packet without a packet."""
        self._concealed = 0
        self._idle = True
        """The last packet said that silence follows, or none ever came."""
        self._held: dict[int, tuple[Arrival, MonoNs]] = {}
        self._held_samples = 0
        self._ssrc: int | None = None
        self._ssrc_before: int | None = None
        self._ssrc_since = now
        self._next_seq = 0
        self._next_ts = 0
        self._stray_seq = -1
        self._late_seq = -1
        self._late_run = 0
        self._transits: deque[int] = deque(maxlen=_TRANSITS_KEPT)
        self._measured_ts = self._measured_ext = 0
        self._ready: deque[Step] = deque()
        self._pushed = self._played = self._late = self._duplicates = self._dropped = 0
        self._lost = self._filled_total = self._concealed_total = self._restarts = self._unmeasured = 0

    def push(self, packet: Arrival, now: MonoNs) -> None:
        """Take a packet; `poll` afterwards gives what it makes ready."""
        self._pushed += 1
        if packet.ssrc != self._ssrc and not self._follow(packet, now):
            return
        ahead = _signed16(packet.rtp_seq - self._next_seq)
        if not -_MISORDER_MAX <= ahead <= _DROPOUT_MAX:
            if packet.rtp_seq != self._stray_seq:  # RFC 3550 A.1: two in a row make a restart
                self._stray_seq = (packet.rtp_seq + 1) & 0xFFFF
                self._dropped += 1
                return
            self._restart(packet, now)
        elif ahead < 0:
            self._late += 1
            self._late_run = self._late_run + 1 if packet.rtp_seq == self._late_seq else 1
            self._late_seq = (packet.rtp_seq + 1) & 0xFFFF
            self._measure(packet, now)
            if self._late_run < _LATE_RUN:
                return
            self._late -= 1
            self._restart(packet, now)
        self._late_run, self._stray_seq = 0, -1
        if packet.rtp_seq in self._held:
            self._duplicates += 1
            return
        self._measure(packet, now)
        self._held[packet.rtp_seq] = (packet, now)
        self._held_samples += packet.duration
        self._release(now)

    def poll(self, now: MonoNs) -> Iterator[Step]:
        """Yield what is decided by `now`, oldest first; call after each push and every 20 ms."""
        self._release(now)
        if not self._held:
            self._fill(now)
        while self._ready:
            step = self._ready.popleft()
            if isinstance(step, Play):
                self._queued -= step.packet.duration
                step = Play(packet=step.packet, quiet=self._quiet(step.packet, now))
            yield step

    def skipped(self, duration: int) -> None:
        """Say that a packet marked `Quiet.SKIP` was quiet and left out."""
        self._emitted -= duration

    def doubled(self, duration: int) -> None:
        """Say that `duration` of silence was declared after a packet marked `Quiet.DOUBLE`."""
        self._emitted += duration
        self._filled_total += duration

    @property
    def emitted(self) -> int:
        """Samples given on since the start, fills included."""
        return self._emitted

    def stats(self) -> JitterStats:
        """Return the counts."""
        return JitterStats(
            pushed=self._pushed,
            played=self._played,
            late=self._late,
            duplicates=self._duplicates,
            dropped=self._dropped,
            held=len(self._held),
            lost=self._lost,
            filled=self._filled_total,
            concealed=self._concealed_total,
            restarts=self._restarts,
            depth_ms=self._depth / 1e6,
        )

    # Following the sender. --------------------------------------------------------------------------------------

    def _follow(self, packet: Arrival, now: MonoNs) -> bool:
        """Change over to a new SSRC; a straggler of the one before is dropped."""
        if packet.ssrc == self._ssrc_before and now - self._ssrc_since < ns_from_samples(_JUMP):
            self._dropped += 1
            return False
        self._ssrc_before, self._ssrc, self._ssrc_since = self._ssrc, packet.ssrc, now
        self._restart(packet, now)
        return True

    def _restart(self, packet: Arrival, now: MonoNs) -> None:
        """Begin anew at `packet`: what is held is given on first, then the packet as if it followed."""
        while self._held:
            self._give_up_hole()
            self._release(now)
        if self._played or self._dropped:
            self._restarts += 1
        self._next_seq = packet.rtp_seq
        self._next_ts = self._offset(packet.rtp_ts, -self._filled)
        self._transits.clear()

    def _measure(self, packet: Arrival, now: MonoNs) -> None:
        """Learn the depth from how late packets are against the quickest of the last few seconds."""
        end = self._offset(packet.rtp_ts, packet.duration)
        if not self._transits:
            self._measured_ts, self._measured_ext = end, 0
        self._measured_ext += _signed32(end - self._measured_ts)
        self._measured_ts = end
        self._transits.append(now - self._epoch - ns_from_samples(self._measured_ext * self._scale))
        self._unmeasured += 1
        if self._unmeasured < _MEASURE_EVERY:
            return
        self._unmeasured = 0
        ordered = sorted(self._transits)
        late = ordered[int(_LATE_PERCENTILE * (len(ordered) - 1))] - ordered[0]
        self._depth = min(max(late, self._depth_min), self._depth_max)

    def _offset(self, rtp_ts: int, samples: int) -> int:
        return (rtp_ts + samples // self._scale) & 0xFFFFFFFF

    # Deciding. --------------------------------------------------------------------------------------------------

    def _release(self, now: MonoNs) -> None:
        """Give on what is in order, and give up holes that were waited for long enough."""
        while self._held:
            entry = self._held.pop(self._next_seq, None)
            if entry is not None:
                self._give(*entry, now=now, hole=False)
                continue
            waited = now - min(at for _, at in self._held.values())
            full = self._held_samples >= samples_from_ns(self._depth_max) or len(self._held) >= _HELD_MAX
            if waited < self._depth and not full:
                return
            missing = self._give_up_hole()
            self._give(*self._held.pop(self._next_seq), now=now, hole=missing > 0)

    def _give_up_hole(self) -> int:
        """Move on to the oldest packet held; return how many are missing before it."""
        missing = min((seq - self._next_seq) & 0xFFFF for seq in self._held)
        self._lost += missing
        self._next_seq = (self._next_seq + missing) & 0xFFFF
        return missing

    def _give(self, packet: Arrival, at: MonoNs, *, now: MonoNs, hole: bool) -> None:
        """Give on `packet`, after filling the time before it that nothing has filled yet."""
        self._held_samples -= packet.duration
        gap = self._gap(packet)
        passed = samples_from_ns(max(now - self._anchor, 0)) + _JUMP
        if self._filled - gap > _SHIFT:
            self._transits.clear()
        if 0 <= gap <= passed:
            self._fill_gap(packet, max(gap - self._filled, 0) // _FINEST * _FINEST, hole=hole)
        elif self._played:
            self._restarts += 1
            self._transits.clear()
        self._next_seq = (packet.rtp_seq + 1) & 0xFFFF
        self._next_ts = self._offset(packet.rtp_ts, packet.duration)
        self._anchor, self._filled, self._concealed, self._idle = at, 0, 0, packet.dtx
        self._period = max(packet.duration, TICK)
        ahead = self._emitted - samples_from_ns(now - self._epoch)
        hard = samples_from_ns(self._depth_max) + _SOFT
        if ahead > hard:
            self._dropped += 1
            return
        if ahead < -hard:
            self._conceal(TICK)
        self._played += 1
        self._emitted += packet.duration
        self._queued += packet.duration
        self._ready.append(Play(packet=packet))

    def _quiet(self, packet: Arrival, now: MonoNs) -> Quiet:
        """Decide, as `packet` leaves, what may happen to it if it is quiet: what left before it has been heard of."""
        ahead = self._emitted - self._queued - packet.duration - samples_from_ns(now - self._epoch)
        soft = samples_from_ns(self._depth) + _SOFT
        if ahead > soft:
            return Quiet.SKIP
        return Quiet.DOUBLE if ahead < -soft - packet.duration else Quiet.KEEP

    def _gap(self, packet: Arrival) -> int:
        """Return the signed distance from the end of the packet before to `packet`."""
        return _signed32(packet.rtp_ts - self._next_ts) * self._scale

    def _fill_gap(self, packet: Arrival, samples: int, *, hole: bool) -> None:
        if not hole:  # nothing was lost: the sender was silent
            self._silence(samples)
            return
        recovered = packet.duration if samples >= packet.duration and packet.duration % _FINEST == 0 else 0
        self._conceal(samples - recovered)
        if recovered:
            self._ready.append(Recover(packet=packet, duration=recovered))
            self._concealed_total += recovered
            self._count_fill(recovered)

    def _fill(self, now: MonoNs) -> None:
        """Fill time that has passed with nothing to hear, in whole ticks, never beyond real time."""
        patience = self._depth if self._idle else max(self._depth, self._late_wait)
        wait = 0 if self._ssrc is None else samples_from_ns(patience) + self._period - TICK
        owed = min(
            samples_from_ns(max(now - self._anchor, 0)) - wait - self._filled,
            samples_from_ns(now - self._epoch) - self._emitted,
        )
        owed = owed // TICK * TICK
        if owed <= 0:
            return
        self._filled += owed
        if self._idle:
            self._silence(owed)
        else:
            self._conceal(owed)

    def _conceal(self, samples: int) -> None:
        concealed = min(samples, max(self._conceal_max - self._concealed, 0)) // _FINEST * _FINEST
        for at in range(0, concealed, TICK):
            step = min(TICK, concealed - at)
            self._ready.append(Conceal(duration=step))
            self._concealed_total += step
            self._count_fill(step)
        self._concealed += concealed
        self._silence(samples - concealed)

    def _silence(self, samples: int) -> None:
        if samples > 0:
            self._ready.append(Silence(duration=samples))
            self._count_fill(samples)

    def _count_fill(self, samples: int) -> None:
        self._emitted += samples
        self._filled_total += samples
