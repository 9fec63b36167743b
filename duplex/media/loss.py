"""When to spend bits on redundancy: reported loss with hysteresis.

In-band FEC costs CPU (SILK instead of CELT) and quality, so it is on only while the client reports loss.
"""

from __future__ import annotations

from duplex.units import MonoNs, ns_from_seconds

_SMOOTHING = 0.5
_OFF_BELOW = 0.5
"""Part of the switch-on threshold under which loss counts as gone."""
_OFF_AFTER = ns_from_seconds(10)


class LossPolicy:
    """Decides from receiver reports whether sent audio carries FEC.

    Args:
        fec_loss_on: smoothed loss (0..1) above which FEC is switched on.
    """

    def __init__(self, *, fec_loss_on: float) -> None:
        self._on_above = fec_loss_on
        self._loss = 0.0
        self._clear_since: MonoNs | None = None
        self._on = False

    @property
    def on(self) -> bool:
        """Whether FEC is on."""
        return self._on

    def report(self, fraction_lost: float, now: MonoNs) -> float | None:
        """Take one report; return the loss to protect against, or None for none."""
        self._loss += _SMOOTHING * (fraction_lost - self._loss)
        if self._loss > self._on_above:
            self._on = True
        if self._loss > self._on_above * _OFF_BELOW:
            self._clear_since = None
        elif self._clear_since is None:
            self._clear_since = now
        elif now - self._clear_since >= _OFF_AFTER:
            self._on = False
        return self._loss if self._on else None
