"""Token buckets: how often each of many callers may ask, in bounded memory. Pure: `now` is an argument.

A caller begins with a full bucket. Each request takes one token; tokens come back at an even rate:

    tokens  burst ┐      ┌ … full: forgotten, for a new one is the same
                  └┐ ┌┐┌─┘
    0              └─┘└┘   refused, with the time until the next token

Source: field case C66.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from duplex.units import MonoNs

_MINUTE_NS = 60_000_000_000


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: MonoNs
    """When `tokens` was counted."""


class TokenBuckets:
    """One bucket per caller.

    Args:
        per_min: tokens that come back in a minute, > 0; also what a full bucket holds.
        callers_max: buckets kept at once; overflow rule: the one that was used longest ago is forgotten.
    """

    def __init__(self, *, per_min: int, callers_max: int) -> None:
        assert per_min > 0 and callers_max > 0
        self._burst = float(per_min)
        self._token_ns = _MINUTE_NS / per_min
        self._callers_max = callers_max
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, caller: str, now: MonoNs) -> int:
        """Take a token.

        Returns:
            0 when there was one, else the nanoseconds until there is; then nothing was taken.
        """
        bucket = self._buckets.get(caller)
        if bucket is None:
            self._make_room(now)
            bucket = self._buckets[caller] = _Bucket(self._burst, now)
        self._buckets.move_to_end(caller)
        self._refill(bucket, now)
        if bucket.tokens < 1:
            return max(1, round((1 - bucket.tokens) * self._token_ns))
        bucket.tokens -= 1
        return 0

    def _refill(self, bucket: _Bucket, now: MonoNs) -> None:
        bucket.tokens = min(self._burst, bucket.tokens + max(0, now - bucket.at) / self._token_ns)
        bucket.at = now

    def _make_room(self, now: MonoNs) -> None:
        """Forget buckets that are full again, oldest first, and one more where that is not enough."""
        while self._buckets:
            caller, oldest = next(iter(self._buckets.items()))
            self._refill(oldest, now)
            if oldest.tokens < self._burst and len(self._buckets) < self._callers_max:
                return
            del self._buckets[caller]
