"""What the server tells those who run it: measures, logs, the lag of its event loop."""

from duplex.telemetry.logs import configure_logging, log_failure
from duplex.telemetry.loop_lag import sample_loop_lag
from duplex.telemetry.metrics import MEASURES, Observer

__all__ = ["MEASURES", "Observer", "configure_logging", "log_failure", "sample_loop_lag"]
