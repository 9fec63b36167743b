"""What the server tells those who run it: measures, logs, the live snapshot, sessions' timelines, turns as spans.

`hub` is what the other parts are given; docs/observability.md says what comes out.
"""

from duplex.telemetry.logs import configure_logging, log_failure
from duplex.telemetry.loop_lag import measure_load, sample_loop_lag
from duplex.telemetry.metrics import MEASURES, Observer

__all__ = ["MEASURES", "Observer", "configure_logging", "log_failure", "measure_load", "sample_loop_lag"]
