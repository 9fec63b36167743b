"""The lead target: how far ahead of the listener a session's audio should be.

    lead target = way to the client + client jitter buffer + network jitter (p95) + the stages' own output jitter (p95)
                  + one codec unit

The lead counts what is on the way, so the target does too. Source: DESIGN.md §5; ADR-0010.
"""

from __future__ import annotations

from duplex.config import PacingSettings
from duplex.units import Samples, samples_from_ms


class JitterMeter:
    """95th percentile of the lateness of stage outputs, kept as a decaying quantile estimate in milliseconds.

    Source: Robbins–Monro quantile tracking: up by step × 0.95 on a miss, down by step × 0.05 otherwise.
    """

    def __init__(self, initial_ms: float, step_ms: float = 5.0) -> None:
        self._p95_ms = initial_ms
        self._step_ms = step_ms

    def observed(self, lateness_ms: float) -> None:
        """Take how long one output took."""
        if lateness_ms > self._p95_ms:
            self._p95_ms += self._step_ms * 0.95
        else:
            self._p95_ms = max(0.0, self._p95_ms - self._step_ms * 0.05)

    @property
    def p95_ms(self) -> float:
        return self._p95_ms


def lead_target(settings: PacingSettings, way_ms: float, network_jitter_ms: float, stage_jitter_ms: float) -> Samples:
    """Return the lead a WebRTC session should have.

    Args:
        way_ms: half of the round trip.
        network_jitter_ms, stage_jitter_ms: 95th percentiles.
    """
    own = settings.client_buffer_ms + network_jitter_ms + stage_jitter_ms + settings.codec_unit_ms
    return samples_from_ms(way_ms + max(own, settings.lead_ms_min))
