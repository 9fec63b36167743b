"""Turns of simulated conversations, as a collector on the loopback receives them over OTLP."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from duplex.cli import USAGE, main
from duplex.config import ConfigError, TelemetrySettings
from duplex.session.events import ReplyView
from duplex.telemetry.otel import TurnExporter
from duplex.telemetry.setup import ProcessClock, open_exporter
from duplex.telemetry.turns import Turn
from duplex.units import MonoNs
from tests.sim.watched import UNIX_NS, WatchedServer

pytestmark = pytest.mark.protocol

SECRET = "Marmalade is what the answer speaks of, clause by clause, and nobody else may know. " * 2


class Collector:
    """Takes OTLP over HTTP and keeps the spans."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, bytes]] = []
        """Path, `x-test` header and body."""
        self.open = threading.Event()
        """Requests are answered once it is set."""
        self.open.set()
        kept, may_answer = self.requests, self.open

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                kept.append((self.path, self.headers.get("x-test", ""), body))
                may_answer.wait(timeout=10)
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def spans(self) -> list[Span]:
        found: list[Span] = []
        for _, _, body in self.requests:
            request = ExportTraceServiceRequest()
            request.ParseFromString(body)
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    found.extend(scope.spans)
        return found


@contextmanager
def exporting(url: str | None, queue_max: int = 2048) -> Iterator[TurnExporter]:
    exporter = TurnExporter(endpoint=url, queue_max=queue_max, model="sim", unix_ns=lambda at: UNIX_NS + at)
    try:
        yield exporter
    finally:
        exporter.close()


def attributes(span: Span) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in span.attributes:
        kind = pair.value.WhichOneof("value")
        value = getattr(pair.value, kind)
        found[pair.key] = [v.string_value for v in value.values] if kind == "array_value" else value
    return found


def conversation() -> WatchedServer:
    """An answer that is interrupted, and one that is heard to the end."""
    server = WatchedServer(script=(SECRET,))
    session = server.connect()
    server.advance(500)
    session.say(1500)
    server.advance(4000)
    session.say(1000)
    server.advance(18_000)
    session.leave()
    server.advance(100)
    return server


def test_a_collector_receives_a_span_per_turn_with_its_stages() -> None:
    server = conversation()
    with Collector() as collector, exporting(collector.url) as exporter:
        for turn in server.turns:
            exporter.export(turn)
        exporter.close()
        spans = collector.spans
    assert {path for path, _, _ in collector.requests} == {"/v1/traces"}
    assert not any(
        b"Marmalade" in body or b"sess_0" in body.replace(b"_sess_0", b"") for _, _, body in collector.requests
    )
    cancelled, completed = [span for span in spans if not span.parent_span_id]
    assert cancelled.trace_id != completed.trace_id
    assert (cancelled.name, completed.name) == ("chat sim", "chat sim")
    told = attributes(completed)
    assert told["gen_ai.operation.name"] == "chat"
    assert told["gen_ai.provider.name"] == "duplex"
    assert told["gen_ai.request.model"] == told["gen_ai.response.model"] == "sim"
    assert told["gen_ai.conversation.id"] == attributes(cancelled)["gen_ai.conversation.id"]
    assert told["gen_ai.output.type"] == "speech"
    assert told["gen_ai.usage.output_tokens"] > 0
    assert told["gen_ai.response.finish_reasons"] == ["stop"]
    assert attributes(cancelled)["gen_ai.response.finish_reasons"] == ["interrupted"]
    assert told["gen_ai.response.time_to_first_chunk"] == pytest.approx(0.3, abs=0.2)
    assert "error.type" not in told
    assert [event.name for event in cancelled.events][-1] == "duplex.barge_in.cut"
    assert UNIX_NS < cancelled.start_time_unix_nano < cancelled.end_time_unix_nano < completed.end_time_unix_nano
    for root in (cancelled, completed):
        children = [span for span in spans if span.parent_span_id == root.span_id]
        assert {"transcribe transcribe", "think think", "talk talk", "vocode vocode"} <= {
            span.name for span in children
        }
        assert all(span.trace_id == root.trace_id for span in children)
        assert all(span.start_time_unix_nano >= root.start_time_unix_nano for span in children)
        assert all(
            {"duplex.queue_s", "duplex.compute_s", "duplex.outcome"} <= set(attributes(span)) for span in children
        )


def a_turn(number: int = 0, **reply: Any) -> Turn:
    view = ReplyView(**{"id": f"resp_{number}", "item": None, "status": "completed"} | reply)
    return Turn(conversation_id="conv_0", reply=view, started_at=MonoNs(1), ended_at=MonoNs(2))


def test_a_failed_turn_is_an_error_with_its_type() -> None:
    with Collector() as collector, exporting(collector.url) as exporter:
        exporter.export(a_turn(status="failed", reason="stage_failed", error="what a library said of the prompt"))
        exporter.close()
        (span,) = collector.spans
    assert span.status.code == Status.STATUS_CODE_ERROR
    assert attributes(span)["error.type"] == "stage_failed"
    assert b"library" not in collector.requests[0][2]


def test_a_collector_that_is_slow_holds_nobody_up_and_what_does_not_fit_is_dropped() -> None:
    with Collector() as collector, exporting(collector.url, queue_max=16) as exporter:
        collector.open.clear()
        for number in range(500):
            exporter.export(a_turn(number))
        collector.open.set()
        exporter.close()
        assert 0 < len(collector.spans) < 500


def test_a_collector_that_is_not_there_is_given_up_at_the_end() -> None:
    with Collector() as gone:
        url = gone.url
    exporter = TurnExporter(endpoint=url, queue_max=16, model="sim", unix_ns=lambda at: UNIX_NS + at)
    exporter.export(a_turn())
    closing = threading.Thread(target=exporter.close)
    closing.start()
    closing.join(timeout=9)
    assert not closing.is_alive()


def test_the_standards_variables_name_the_collector_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with Collector() as collector:
        environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_EXPORTER_OTLP_HEADERS": "x-test=yes"}
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        exporter = open_exporter(TelemetrySettings(), environ, "sim", ProcessClock())
        assert exporter is not None
        exporter.export(a_turn())
        exporter.close()
    assert [(path, header) for path, header, _ in collector.requests] == [("/v1/traces", "yes")]


def test_without_an_endpoint_nothing_is_exported() -> None:
    assert open_exporter(TelemetrySettings(), {}, "sim", ProcessClock()) is None


def test_an_endpoint_without_the_packages_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "duplex.telemetry.otel")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ConfigError, match=r"pip install 'duplex\[otel\]'"):
        open_exporter(TelemetrySettings(otlp_endpoint="http://127.0.0.1:9"), {}, "sim", ProcessClock())
    arguments = ["serve", "--model", "sim", "--set", "telemetry.otlp_endpoint=http://127.0.0.1:9"]
    assert main(arguments) == USAGE
    assert "duplex[otel]" in capsys.readouterr().err
