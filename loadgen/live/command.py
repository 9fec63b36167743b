"""The subcommand `live`: its options, its progress bar, its files."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from duplex.client_key import read_key
from duplex.config import CLIENT_KEY_VARIABLE, ConfigError
from loadgen import report, trace
from loadgen.live import load, stats
from loadgen.live.call import CallFailed
from loadgen.live.crew import CrewError
from loadgen.live.options import LiveOptions, Network, OptionError, Ramp, Slo
from loadgen.live.result import result
from loadgen.live.run import Record, Run

_SHOW_EVERY_S = 0.5


def add_options(parser: argparse.ArgumentParser) -> None:
    """Give the parser of `loadgen live` its options."""
    parser.add_argument(
        "trace", type=Path, help="trace file, or the name of one that comes along: sparse, busy, interrupted"
    )
    parser.add_argument("--url", required=True, help="the server, e.g. http://127.0.0.1:8080")
    parser.add_argument(
        "--key-file",
        type=Path,
        metavar="FILE",
        help=f"holds the server's API key alone (default: {CLIENT_KEY_VARIABLE})",
    )
    parser.add_argument("--json", type=Path, help="write the result here")
    parser.add_argument("--html", type=Path, help="write a report that needs nothing else here")
    parser.add_argument("--transport", choices=("webrtc", "websocket", "mixed"), default="webrtc")
    parser.add_argument("--sessions", type=int, help="begin at most so many sessions")
    parser.add_argument("--concurrency", type=int, help="closed loop: so many talkers at once")
    parser.add_argument(
        "--rate", type=float, help="open arrivals: sessions per second (default: the trace's own times)"
    )
    parser.add_argument("--duration", type=float, dest="duration_s", metavar="S", help="end the run after so long")
    parser.add_argument("--processes", type=int, default=1, help="of talkers (default 1; 0: in this one)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--speech", nargs="+", default=(), metavar="FILE", help="recordings to speak")
    parser.add_argument(
        "--timeout", type=float, default=10.0, dest="timeout_s", metavar="S", help="a turn is unanswered after this"
    )
    slo = parser.add_argument_group("what a caller is owed")
    slo.add_argument("--slo-ttfas", type=float, default=1.0, metavar="S")
    slo.add_argument("--slo-underrun", type=float, default=0.1, metavar="S", help="longest gap in an answer")
    slo.add_argument("--slo-share", type=float, default=0.9, help="of turns that get it")
    ramp = parser.add_argument_group("ramp: raise the load until the SLO fails twice in a row, and say what held")
    ramp.add_argument("--ramp", action="store_true", help="begins at --concurrency or --rate")
    ramp.add_argument("--ramp-by", type=float, default=10, metavar="N", help="added per step")
    ramp.add_argument("--ramp-step-s", type=float, default=30.0, metavar="S", help="measured time of a step")
    ramp.add_argument("--ramp-settle-s", type=float, default=8.0, metavar="S", help="before it, not counted")
    ramp.add_argument(
        "--ramp-min-turns", type=int, default=20, metavar="N", help="a step lasts up to three times as long for them"
    )
    ramp.add_argument("--ramp-max", type=float, default=1000, metavar="N")
    network = parser.add_argument_group("network of the talkers, in both directions")
    network.add_argument("--loss", type=float, default=0.0, metavar="P")
    network.add_argument("--jitter-ms", type=float, default=0.0, metavar="MS")
    network.add_argument("--reorder", type=float, default=0.0, metavar="P")
    network.add_argument(
        "--drop-link-s", type=float, default=0.0, metavar="S", help="once per session, the link is down"
    )
    parser.set_defaults(run=live)


def live(arguments: argparse.Namespace) -> int:
    """Run `loadgen live`: 0 when it was measured, 2 for what cannot be run."""
    try:
        options = _options(arguments)
    except ConfigError as error:
        raise OptionError(str(error)) from error
    options.check()
    read = trace.read(arguments.trace)
    for path in (arguments.json, arguments.html):
        if path is not None and not path.parent.is_dir():
            raise OptionError(f"no such folder: {path.parent}")
    try:
        record = uvloop.run(_measure(options, read))
    except (CallFailed, CrewError) as error:
        raise OptionError(str(error)) from error
    command = shlex.join(["loadgen", *sys.argv[1:]])
    found = result(record, options, read, command)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if arguments.html is not None:
        arguments.html.write_text(report.render([found]), encoding="utf-8")
    sys.stdout.write(report.table([found]))
    return 0


def _options(arguments: argparse.Namespace) -> LiveOptions:
    given = vars(arguments)
    same = (
        "url", "transport", "sessions", "concurrency", "rate", "duration_s", "processes", "seed", "timeout_s",
    )  # fmt: skip
    ramp = Ramp(
        by=arguments.ramp_by,
        step_s=arguments.ramp_step_s,
        settle_s=arguments.ramp_settle_s,
        turns_min=arguments.ramp_min_turns,
        most=arguments.ramp_max,
    )
    return LiveOptions(
        **{name: given[name] for name in same},
        key=read_key(arguments.key_file, os.environ),
        speech=tuple(map(str, arguments.speech)),
        ramp=ramp if arguments.ramp else None,
        slo=Slo(ttfas_s=arguments.slo_ttfas, underrun_s=arguments.slo_underrun, share=arguments.slo_share),
        network=Network(
            loss=arguments.loss,
            jitter_ms=arguments.jitter_ms,
            reorder=arguments.reorder,
            drop_link_s=arguments.drop_link_s,
        ),
    )


async def _measure(options: LiveOptions, read: trace.Trace) -> Record:
    with _Bar(options, read) as bar:
        run = Run(options, read, bar.watch)
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, run.stop.set)
        try:
            return await run.measure()
        finally:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)


class _Bar:
    """A moving line on a terminal; nothing elsewhere."""

    def __init__(self, options: LiveOptions, read: trace.Trace) -> None:
        console = Console(stderr=True)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=20), TimeElapsedColumn())
        self._progress = Progress(
            *columns, console=console, disable=not console.is_terminal, transient=True, refresh_per_second=4
        )
        self._options = options
        closed = options.concurrency is not None or options.rate is not None
        self._sessions = options.sessions or (None if closed or options.ramp else len(read.sessions))
        self._task = self._progress.add_task("starting the talkers", total=None)
        self._shown_at_s = -_SHOW_EVERY_S

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def watch(self, record: Record) -> None:
        """Show how far the run is, twice a second."""
        now_s = record.pulses[-1].at_s if record.pulses else 0.0
        if self._progress.disable or now_s < self._shown_at_s + _SHOW_EVERY_S:
            return
        self._shown_at_s = now_s
        done: dict[str, Any] = {"total": None}
        if self._options.duration_s is not None:
            done = {"completed": now_s, "total": self._options.duration_s}
        elif self._sessions is not None:
            done = {"completed": len(record.sessions), "total": self._sessions}
        self._progress.update(self._task, description=_line(record, self._options), **done)


def _line(record: Record, options: LiveOptions) -> str:
    processes = max(options.processes, 1)
    live = sum(pulse.live for pulse in {pulse.process: pulse for pulse in record.pulses[-2 * processes :]}.values())
    ttfas = stats.spread(row.ttfas_s for row in record.turns)
    judged = load.verdict(record.turns, options.slo)
    words = [f"{live} talkers", f"{len(record.turns)} turns"]
    if ttfas["n"]:
        words.append(f"TTFAS p50 {ttfas['p50']:.2f} p90 {ttfas['p90']:.2f} s")
        words.append(f"in SLO {100 * judged.share:.0f} %")
    refused = sum(row.status == "refused" for row in record.sessions)
    if refused:
        words.append(f"{refused} refused")
    if record.climb is not None:
        words.append(f"step {record.climb.load:g} {record.climb.unit.replace('_', ' ')}")
    return ", ".join(words)
