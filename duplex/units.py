"""The kinds of time and place that the whole server speaks of.

Four kinds of time are never mixed: `MonoNs` (monotonic), `WallNs` (logs and RTCP sender reports only), `Samples`
(media positions) and `RtpTicks` (32-bit header values). Floats of seconds appear only in configuration and reports.

A position is a count of samples at 48 kHz, whatever rate the audio has where it is kept:

    20 ms RTP packet = 960      32 ms VAD window = 1536      80 ms codec frame = 3840

Source: DESIGN.md §1; RFC 3550 §5.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

MonoNs = NewType("MonoNs", int)
"""Nanoseconds of the process's monotonic clock."""
WallNs = NewType("WallNs", int)
"""Nanoseconds since 1970 (logs, RTCP sender reports)."""
Samples = NewType("Samples", int)
"""A media position or length in samples at 48 kHz."""
RtpTicks = NewType("RtpTicks", int)
"""An RTP timestamp as it stands in a header: 0 ≤ t < 2**32, 48 kHz for Opus."""

POSITION_RATE = 48_000
"""Samples of position per second."""
PTIME = Samples(960)
"""Audio of one RTP packet that we send: 20 ms."""
NS_PER_S = 1_000_000_000
_RTP_TICKS = 1 << 32
_NS_PER_MS = 1_000_000
_PER_MS = POSITION_RATE // 1000


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A half-open stretch of media, `start <= position < end`."""

    start: Samples
    end: Samples

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise ValueError(f"span ends before it starts: {self.start}..{self.end}")

    def __len__(self) -> int:
        return self.end - self.start


def samples_from_ms(ms: float) -> Samples:
    """Return the position length of `ms` milliseconds, rounded to the nearest sample."""
    return Samples(round(ms * _PER_MS))


def rtp_ticks(ticks: int) -> RtpTicks:
    """Return a count of 48 kHz ticks as it stands in a header, wrapped."""
    return RtpTicks(ticks % _RTP_TICKS)


def ms_from_samples(n: int) -> int:
    """Return whole milliseconds of `n` samples at 48 kHz, rounded down."""
    return n // _PER_MS


def seconds_from_samples(n: int) -> float:
    """Return seconds of `n` samples at 48 kHz; for reports only."""
    return n / POSITION_RATE


def ns_from_samples(n: int) -> int:
    """Return nanoseconds of `n` samples at 48 kHz, rounded down."""
    return n * NS_PER_S // POSITION_RATE


def samples_from_ns(ns: int) -> Samples:
    """Return samples at 48 kHz that fit in `ns`, rounded down."""
    return Samples(ns * POSITION_RATE // NS_PER_S)


def ns_from_ms(ms: float) -> int:
    """Return nanoseconds of `ms` milliseconds."""
    return round(ms * _NS_PER_MS)


def ns_from_seconds(seconds: float) -> int:
    """Return nanoseconds of `seconds`; for configuration values."""
    return round(seconds * NS_PER_S)


def seconds_from_ns(ns: int) -> float:
    """Return seconds of `ns`; for reports only."""
    return ns / NS_PER_S


def convert(n: int, from_rate: int, to_rate: int) -> int:
    """Convert a count of samples from the start of a stream to another rate, rounded down.

    Exact only when `n` counts from the stream's start: converting steps and adding them up drifts.
    """
    return n * to_rate // from_rate


class Unwrapper:
    """Extend a wrapping counter (RTP sequence number or timestamp) to an integer that never wraps.

    Args:
        bits: width of the wrapping counter (16 for sequence numbers, 32 for timestamps).
    Source: RFC 3550 appendix A.1.
    """

    def __init__(self, bits: int) -> None:
        self._modulus = 1 << bits
        self._last: int | None = None

    def unwrap(self, value: int) -> int:
        """Return `value` extended to the number nearest to the furthest one seen."""
        if self._last is None:
            self._last = value
            return value
        half = self._modulus // 2
        delta = (value - self._last + half) % self._modulus - half
        extended = self._last + delta
        self._last = max(self._last, extended)
        return extended

    def reset(self) -> None:
        """Forget the history: the next value starts a new stream."""
        self._last = None
