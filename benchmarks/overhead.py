"""What does the server itself add to a turn? `sim` with no cost of its own over WebRTC to Chromium.

Server overhead is two stretches of each turn: from the receipt of the packet that completes the deciding VAD window to the turn's
first submit (the wait in the jitter buffer and silero included), plus from the vocoder's first samples to the packet.
"""

from __future__ import annotations

import argparse
from typing import Any

import uvloop
from duplex_models.sim import create

from benchmarks import ttfas
from benchmarks.browser_call import call
from benchmarks.report import quantiles, write
from duplex.actor.host import SessionHost
from duplex.config import ModelSettings, ServerSettings, Settings
from duplex.server.serve import listening
from duplex.telemetry import Observer, configure_logging


async def run(turns: int) -> dict[str, Any]:
    settings = Settings(
        server=ServerSettings(port=0, cors_origins=("*",)), model=ModelSettings(pack="sim", options={"script": ["Yes."]}),
        log_level="error",
    )  # fmt: skip
    configure_logging(settings.log_level)
    observer = Observer()
    seen: dict[str, list[float]] = {}

    def observe(measure: str, value: float, labels: dict[str, str]) -> None:
        observer.record(measure, value, labels)
        seen.setdefault(f"{measure}{labels.get('stage', '')}", []).append(value)

    mic, _ = ttfas.microphone(turns, pause_s=2.0)
    host = SessionHost(settings, create(dict(settings.model.options), 1), observe)
    async with listening(host, settings.server, observer) as url:
        await host.start(lambda line: None)
        await call(url, mic, {"type": "realtime"})
    return {
        "server_overhead_ms": quantiles(seen.get("duplex_server_overhead_seconds", []), 1000),
        "vad_step_ms": quantiles(seen.get("duplex_stage_compute_secondsvad", []), 1000),
        "vad_queue_ms": quantiles(seen.get("duplex_stage_queue_secondsvad", []), 1000),
        "send_lateness_ms": quantiles(seen.get("duplex_send_lateness_seconds", []), 1000),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=30)
    write("overhead", uvloop.run(run(parser.parse_args().turns)))


if __name__ == "__main__":
    main()
