"""The talkers of one process: begins sessions as it is told, and tells rows.

`python -m loadgen.live.worker` is the child of a run: one JSON object a line, orders in on stdin, rows out on stdout.

    ← {"options": …, "process": 0}                       first
    ← {"epoch": ns}                                      when the run begins
    ← {"begin": {"name": …, "trace": …, "transport": "webrtc"}}   any number, at any time
    ← {"stop": true} or the end of stdin                 ends
    → {"ready": true} | {"kind": "turn"|"session"|"pulse", …} | {"error": "…"}
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import aiohttp
import uvloop

from duplex.client_key import headers_of
from duplex.units import NS_PER_S, MonoNs, seconds_from_ns
from loadgen.live import rows, speech, webrtc, websocket
from loadgen.live.call import Call, CallFailed, CallRefused, Lateness
from loadgen.live.clock import now_ns
from loadgen.live.metronome import Metronome
from loadgen.live.options import LiveOptions, Network, OptionError, Ramp, Slo, Transport
from loadgen.live.talker import Talker, lines
from loadgen.trace import SessionTrace

_PHASES = 5
"""Groups in which the talkers are served, evenly spread over 20 ms."""
_PULSE_S = 1.0
_GC_THRESHOLD = (50_000, 20, 100)
"""Cycles are few (aiortc's peers); looking for them seldom keeps the packets punctual."""
_LINE_BYTES_MAX = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One session to hold."""

    name: str
    """Of the session in the rows; the trace's own name unless that is used again."""
    trace: SessionTrace
    transport: Transport

    def to_json(self) -> dict[str, Any]:
        """Return it as it goes to another process."""
        return {"name": self.name, "trace": self.trace.model_dump(), "transport": self.transport}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Assignment:
        """Return the assignment of `to_json`."""
        return cls(name=value["name"], trace=SessionTrace.model_validate(value["trace"]), transport=value["transport"])


class Worker:
    """All sessions of this process.

    Args:
        options: of the run.
        process: its number.
        tell: takes each row.
    """

    def __init__(self, options: LiveOptions, process: int, tell: Callable[[rows.Row], None]) -> None:
        self.epoch = now_ns()
        """The run's start: 0 of the rows' times."""
        self._options = options
        self._process = process
        self._tell = tell
        self._bank = speech.load(options.speech)
        self._metronome = Metronome(_PHASES, now_ns)
        self._lateness = Lateness()
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            headers=headers_of(options.key),
        )
        self._sessions: set[asyncio.Task[None]] = set()
        self._live = 0
        self._stopping = False
        self._pulse = asyncio.get_running_loop().create_task(self._beat())

    def begin(self, assignment: Assignment) -> None:
        """Begin a session."""
        task = asyncio.get_running_loop().create_task(self._hold(assignment))
        self._sessions.add(task)
        task.add_done_callback(self._sessions.discard)

    async def close(self) -> None:
        """Hang up everything and tell what is known."""
        self._stopping = True
        for task in list(self._sessions):
            task.cancel()
        await asyncio.gather(*self._sessions, self._ended_pulse(), return_exceptions=True)
        self._metronome.close()
        await self._http.close()

    async def _ended_pulse(self) -> None:
        self._pulse.cancel()
        with suppress(asyncio.CancelledError):
            await self._pulse

    def _now_s(self) -> float:
        return seconds_from_ns(now_ns() - self.epoch)

    async def _hold(self, assignment: Assignment) -> None:
        """Hold one session from the call to its end. Cancel: hangs up, and tells what is known."""
        seed = f"{self._options.seed}:{assignment.name}"
        talker = Talker(
            session=assignment.name, transport=assignment.transport, script=lines(assignment.trace, self._bank, seed),
            timeout_s=self._options.timeout_s, epoch=self.epoch,
        )  # fmt: skip
        row = rows.SessionRow(
            session=assignment.name, transport=assignment.transport, began_at_s=self._now_s(), ended_at_s=0.0,
            status="ended", turns=len(assignment.trace.turns),
        )  # fmt: skip
        try:
            call = await self._dial(assignment.transport, talker, random.Random(seed))
            row.connect_s = self._now_s() - row.began_at_s
            await self._converse(call, talker, row)
        except CallRefused as refused:
            row.status, row.reason = "refused" if refused.status == 503 else "failed", f"{refused.status} {refused}"
            row.refusal_s, row.retry_after_s = refused.took_s, refused.retry_after_s
        except CallFailed as failed:
            row.status, row.reason = "failed", str(failed)
        except asyncio.CancelledError:
            row.status = "stopped"
        row.ended_at_s = self._now_s()
        for turn in talker.poll():
            self._tell(turn)
        if row.status in ("refused", "failed"):
            self._miss(assignment, row)
        self._tell(row)

    async def _dial(self, transport: Transport, talker: Talker, rng: random.Random) -> Call:
        dial = webrtc.dial if transport == "webrtc" else websocket.dial
        call: Call = await dial(
            self._http, self._options.url.rstrip("/"), talker=talker, bank=self._bank, metronome=self._metronome,
            lateness=self._lateness, network=self._options.network, rng=rng,
        )  # fmt: skip
        return call

    async def _converse(self, call: Call, talker: Talker, row: rows.SessionRow) -> None:
        self._live += 1
        try:
            while not call.over.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(_PULSE_S):
                        await call.over.wait()
                for turn in talker.poll():
                    self._tell(turn)
            if call.lost:
                row.status, row.reason = "lost", call.lost
                talker.lost(now_ns())
        except asyncio.CancelledError:
            talker.stop()
            raise
        finally:
            self._live -= 1
            call.note(row)
            await call.close()

    def _miss(self, assignment: Assignment, row: rows.SessionRow) -> None:
        """Tell the turns that a session which never was did not have.

        A caller of open arrivals goes away with all of them; one of a closed loop asks again, and missed one.
        """
        status: Literal["refused", "lost"] = "refused" if row.status == "refused" else "lost"
        missed = 1 if self._options.closed else len(assignment.trace.turns)
        for number in range(missed):
            turn = rows.TurnRow(
                session=row.session, turn=number, transport=row.transport, end_at_s=row.ended_at_s, status=status,
                done_at_s=row.ended_at_s,
            )  # fmt: skip
            self._tell(turn)

    async def _beat(self) -> None:
        """Tell once a second how this process does. Cancel: at any time."""
        loop = asyncio.get_running_loop()
        due, cpu, at = loop.time(), time.process_time(), now_ns()
        while True:
            due += _PULSE_S
            await asyncio.sleep(due - loop.time())
            cpu_before, cpu, at_before, at = cpu, time.process_time(), at, now_ns()
            p50, p99 = self._lateness.drain()
            used = (cpu - cpu_before) * NS_PER_S / (at - at_before)
            self._tell(
                rows.Pulse(
                    process=self._process,
                    at_s=self._now_s(),
                    live=self._live,
                    cpu=used,
                    late_ms_p50=p50,
                    late_ms_p99=p99,
                )
            )


def options_from_json(value: dict[str, Any], key: str | None) -> LiveOptions:
    """Return the options of `LiveOptions.to_json`, and the key that it leaves out."""
    fields = dict(value)
    fields["slo"], fields["network"] = Slo(**fields["slo"]), Network(**fields["network"])
    fields["ramp"] = Ramp(**fields["ramp"]) if fields["ramp"] is not None else None
    fields["speech"] = tuple(fields["speech"])
    return LiveOptions(**fields, key=key)


def _write(value: dict[str, Any]) -> None:
    # Rows are small and the parent reads all the time; the pipe holds those of seconds.
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def _child() -> int:
    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader(limit=_LINE_BYTES_MAX)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    first = json.loads(await orders.readline())
    try:
        worker = Worker(
            options_from_json(first["options"], first["key"]), first["process"], lambda row: _write(rows.to_json(row))
        )  # fmt: skip
    except OptionError as error:
        _write({"error": str(error)})
        return 2
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLD)
    _write({"ready": True})
    while line := await orders.readline():
        match json.loads(line):
            case {"epoch": epoch}:
                worker.epoch = MonoNs(epoch)
            case {"begin": assignment}:
                worker.begin(Assignment.from_json(assignment))
            case _:
                break
    await worker.close()
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to stop
    sys.exit(uvloop.run(_child()))
