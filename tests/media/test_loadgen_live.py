"""`loadgen live` against a real server with the test double: real packets, real time, generous limits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from duplex_models.sim import SimOptions, make

from duplex.actor.host import SessionHost
from duplex.config import load
from duplex.server.serve import listening
from duplex.telemetry import Observer
from loadgen import report
from loadgen.live.options import LiveOptions, Network
from loadgen.live.result import result
from loadgen.live.run import Record, Run
from loadgen.trace import Trace, parse

pytestmark = pytest.mark.media

CEILING_S = 60.0
ANSWER = "One two three four five six seven eight nine ten eleven twelve."
"""3.6 s of the double's voice."""


@asynccontextmanager
async def serving(**server: Any) -> AsyncIterator[str]:
    """Serve sessions with the test double; yields the URL."""
    settings = load(server={"port": 0, "close_timeout_s": 1.0, **server})
    observer = Observer()
    host = SessionHost(settings, make(SimOptions(script=(ANSWER,))), observer.record)
    async with listening(host, settings.server, observer) as url, asyncio.timeout(CEILING_S):
        await host.start(lambda line: None)
        yield url


def trace(*sessions: Sequence[dict[str, Any]]) -> Trace:
    """Sessions that begin 0.2 s apart; each turn is `turn(…)`."""
    header = {"duplex_trace": 1, "name": "test"}
    rows = [{"session": f"s{n}", "at_s": 0.2 * n, "turns": list(turns)} for n, turns in enumerate(sessions)]
    return parse([json.dumps(line) for line in (header, *rows)])


def turn(**fields: Any) -> dict[str, Any]:
    return {"gap_s": 0.3, "speech_s": 1.6, "words": 4, "answer_words": 12, **fields}


async def measured(url: str, said: Trace, **options: Any) -> tuple[Record, dict[str, Any]]:
    asked = LiveOptions(url=url, **{"processes": 0, **options})
    asked.check()
    record = await Run(asked, said).measure()
    return record, json.loads(json.dumps(result(record, asked, said, "loadgen live")))


def assert_nothing_stale(found: dict[str, Any]) -> None:
    """The server sent none; the talker may be told of the cut before it has looked at the last packets that came before."""
    assert found["server_measures"].get("duplex_stale_packets_total", 0.0) == 0.0
    assert found["aggregates"]["stale_s"] <= 0.1


async def test_every_turn_is_answered_and_an_interruption_stops_the_answer() -> None:
    talks = trace([turn(), turn()], [turn(interrupt_after_s=1.0), turn(speech_s=2.4)])
    async with serving() as url:
        record, found = await measured(url, talks)
    assert [row.status for row in record.sessions] == ["ended", "ended"]
    assert found["aggregates"]["turns"] == {"n": 4, "answered": 4, "unanswered": 0, "refused": 0, "lost": 0}
    assert all(row.ttfas_s is not None and 0.1 < row.ttfas_s < 3.0 for row in record.turns)
    [cut] = [row for row in record.turns if row.interrupted]
    assert (cut.session, cut.turn) == ("s1", 0)
    assert cut.stop_s is not None and cut.stop_s < 2.0
    assert cut.answer_s < 3.4
    heard_out = [row.answer_s for row in record.turns if row is not cut]
    assert heard_out == pytest.approx([3.6] * 3, abs=1.0)
    assert_nothing_stale(found)
    assert found["server"]["model"]["test_double"] is True
    assert found["server_measures"]["duplex_server_overhead_seconds"]["n"] >= 3
    page = report.render([found])
    assert page.startswith("<!doctype html>") and "TEST DOUBLE" in page and page.count("<svg") >= 4


async def test_over_a_websocket_the_same_is_measured() -> None:
    talks = trace([turn(interrupt_after_s=1.0), turn(speech_s=2.4)])
    async with serving() as url:
        record, found = await measured(url, talks, transport="websocket")
    assert [row.status for row in record.sessions] == ["ended"]
    assert found["aggregates"]["turns"]["answered"] == 2
    assert [row.interrupted for row in record.turns] == [True, False]
    assert record.turns[0].stop_s is not None and record.turns[0].stop_s < 2.0
    assert_nothing_stale(found)


async def test_a_bad_network_is_heard_by_the_ear_and_by_the_server() -> None:
    bad = Network(loss=0.05, jitter_ms=10, reorder=0.02)
    async with serving() as url:
        record, found = await measured(url, trace([turn()]), network=bad)
    [row] = record.sessions
    assert row.status == "ended"
    assert row.lost > 0
    assert found["aggregates"]["turns"]["answered"] == 1
    assert found["aggregates"]["concealed_s"] > 0


async def test_a_full_server_refuses_and_every_turn_of_the_refused_session_is_a_miss() -> None:
    async with serving(sessions_max=1) as url:
        record, found = await measured(url, trace([turn()], [turn(), turn()]))
    refused = next(row for row in record.sessions if row.status == "refused")
    assert refused.retry_after_s is not None
    assert refused.refusal_s is not None and refused.refusal_s < 2.0
    assert found["aggregates"]["turns"]["refused"] == 2
    assert found["aggregates"]["slo"]["share"] <= 0.34


async def test_talkers_in_a_process_of_their_own_tell_the_same_rows_and_stop_when_asked() -> None:
    async with serving() as url:
        asked = LiveOptions(url=url, concurrency=2, duration_s=30.0)
        run = Run(
            asked, trace([turn(gap_s=0.1, speech_s=1.0)]), lambda record: run.stop.set() if record.turns else None
        )
        record = await run.measure()
    assert record.stopped
    assert {row.status for row in record.turns} == {"answered"}
    assert any(row.status == "stopped" for row in record.sessions) or len(record.sessions) >= 2
    assert record.pulses
