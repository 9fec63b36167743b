"""What does recording cost? Simulated conversations with interruptions and faults; CPU time, so that other load does not show.

loop     what a core under record takes longer for a step than one that is not, on the same messages
thread   encoding, hashing and compressing a step, and writing it to a file
disk     bytes of the file, per minute of the session
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from benchmarks.report import write
from duplex.session.core import SessionCore
from duplex.telemetry.recording.files import RecordingFile
from duplex.telemetry.recording.layout import step_line
from duplex.telemetry.recording.taped import SeededIds, Step, TapedCore
from tests.sim.recorded import conversations, recorder

ROUNDS = 5
FLUSH_NS = 500_000_000


class Kept:
    """One session: what made its core, and its steps in memory."""

    def __init__(self, made_of: tuple[Any, ...], steps: list[Step]) -> None:
        self.made_of = made_of
        self.steps = steps

    @property
    def minutes(self) -> float:
        return (self.steps[-1].at - self.steps[0].at) / 60e9

    def jobs(self) -> Callable[[], Any]:
        drawn = iter([job for step in self.steps for job in step.jobs])
        return lambda: next(drawn)

    def run(self, core: SessionCore) -> None:
        """Tell a core all of it again, and drain it after each step."""
        handle, timeout, poll = core.handle, core.handle_timeout, core.poll
        for step in self.steps:
            if step.message is None:
                timeout(step.at)
            else:
                handle(step.message, step.at)
            while poll() is not None:
                pass


def keep(seeds: int, folder: Path) -> list[Kept]:
    """Record simulated conversations, and keep their steps."""
    kept: list[Kept] = []
    for seed in range(seeds):
        recording = recorder(folder / str(seed), seed=seed)
        make = recording.core

        def made(*made_of: Any, make: Callable[..., Any] = make) -> SessionCore:
            core = make(*made_of)
            steps: list[Step] = []
            put = core._put
            core._put = lambda step: (steps.append(step), put(step))
            kept.append(Kept(made_of, steps))
            return core  # type: ignore[no-any-return]

        recording.core = made  # type: ignore[method-assign]
        conversations(seed, recording, seconds=30.0)
        recording.close()
    return [one for one in kept if one.steps]


def loop_us(kept: list[Kept]) -> dict[str, float]:
    """Return µs of a step without and with a record, medians over rounds that take turns."""
    steps = sum(len(one.steps) for one in kept)
    taken: dict[str, list[float]] = {"plain": [], "recorded": []}
    for _ in range(ROUNDS):
        for kind, seconds in taken.items():
            began, spent = 0.0, 0.0
            for one in kept:
                session, config, settings, traits, *_ = one.made_of
                waiting: list[Step] = []
                core = (
                    SessionCore(session, config, settings, traits, SeededIds("0"), one.jobs())
                    if kind == "plain"
                    else TapedCore(session, config, settings, traits, one.jobs(), seed="0", put=waiting.append)
                )
                began = time.thread_time()
                one.run(core)
                spent += time.thread_time() - began
            seconds.append(spent / steps * 1e6)
    plain, recorded = (statistics.median(seconds) for seconds in taken.values())
    return {"plain": round(plain, 2), "recorded": round(recorded, 2), "added": round(recorded - plain, 2)}


def written(kept: list[Kept], folder: Path, voice: bool) -> dict[str, Any]:
    """Return µs of a step on the writing thread, and how large the files become."""
    size, lines, spent = 0, 0, 0.0
    for n, one in enumerate(kept):
        file = RecordingFile(folder / f"{n}-{voice}", 1 << 30, 256)
        flushed = one.steps[0].at
        began = time.thread_time()
        for step in one.steps:
            line = step_line(step, voice)
            file.write(line)
            lines += len(line)
            if step.at - flushed > FLUSH_NS:
                flushed = step.at
                file.flush()
        file.close()
        spent += time.thread_time() - began
        size += file.path.stat().st_size
    minutes = sum(one.minutes for one in kept)
    steps = sum(len(one.steps) for one in kept)
    return {
        "us_per_step": round(spent / steps * 1e6, 1),
        "bytes_per_minute": round(size / minutes),
        "bytes_per_minute_uncompressed": round(lines / minutes),
    }


def measure(seeds: int) -> dict[str, Any]:
    """Return the figures."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    with tempfile.TemporaryDirectory() as name:
        kept = keep(seeds, Path(name))
        steps, minutes = sum(len(one.steps) for one in kept), sum(one.minutes for one in kept)
        return {
            "sessions": len(kept),
            "session_minutes": round(minutes, 1),
            "steps_per_session_second": round(steps / minutes / 60, 1),
            "loop_us_per_step": loop_us(kept),
            "thread": written(kept, Path(name), voice=False),
            "thread_with_voice": written(kept, Path(name), voice=True),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2, help="simulated servers, of five sessions each")
    write("recording", measure(parser.parse_args().seeds))


if __name__ == "__main__":
    main()
