"""The shell of telemetry: the process's real clock, and the exporter that the configuration asks for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol, cast

from duplex.config import ConfigError, TelemetrySettings
from duplex.telemetry.hub import Clock
from duplex.telemetry.turns import Turn
from duplex.units import MonoNs

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""The standard's own variables; the exporter reads them, with the headers and certificates beside them."""


class ProcessClock:
    """The monotonic clock that event loops use, and the time of day as it stands to it at this moment."""

    now = staticmethod(cast("Callable[[], MonoNs]", time.monotonic_ns))
    """Returns the present; read with every measure, so nothing stands between."""

    def unix_ns(self, at: MonoNs) -> int:
        """Return a moment as Unix time in nanoseconds."""
        return time.time_ns() - time.monotonic_ns() + at


class Exporter(Protocol):
    """Sends turns elsewhere."""

    def export(self, turn: Turn) -> None:
        """Queue a turn; returns at once."""

    def close(self) -> None:
        """Send what waits; may block for as long as one attempt takes."""


def open_exporter(settings: TelemetrySettings, environ: Mapping[str, str], model: str, clock: Clock) -> Exporter | None:
    """Return what sends turns to the configured collector; None where none is configured.

    Args:
        settings: may name the endpoint and bounds the queue.
        environ: may name it too, in the standard's variables.
        model: name of the model pack.
        clock: the process's.
    Raises:
        ConfigError: an endpoint is configured and the packages are not installed.
    """
    if settings.otlp_endpoint is None and not any(environ.get(name) for name in _ENDPOINTS):
        return None
    try:
        from duplex.telemetry.otel import TurnExporter  # noqa: PLC0415 - an optional extra, and 12 MB
    except ImportError as error:
        raise ConfigError(
            "an OTLP endpoint is configured (telemetry.otlp_endpoint or OTEL_EXPORTER_OTLP_ENDPOINT), but a package"
            f" is missing: pip install 'duplex[otel]' ({error.name})"
        ) from error
    return TurnExporter(
        endpoint=settings.otlp_endpoint, queue_max=settings.otlp_queue_max, model=model, unix_ns=clock.unix_ns
    )
