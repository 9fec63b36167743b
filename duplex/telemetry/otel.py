"""Turns as OpenTelemetry spans, sent to an OTLP/HTTP collector by a thread of its own.

    chat local                                  one per turn, with the gen_ai attributes; events: duck, cut, …
      ├─ transcribe asr                         one per job of a stage
      ├─ think llm
      └─ talk tts, vocode codec, …

Spans are made when a turn is over, from what was noted meanwhile, so a conversation waits for nothing; the batch processor's
queue is bounded and drops what does not fit. No span holds what was heard or said. Needs the extra `otel`.

Source: OpenTelemetry semantic conventions, gen_ai (spans, attributes); OTLP specification (endpoint and its path).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.util.types import AttributeValue

import duplex
from duplex.stages.runner import StageSpan
from duplex.telemetry.turns import SPANS_MAX, Turn
from duplex.units import MonoNs, seconds_from_ns

_TRACES_PATH: Final = "/v1/traces"
_BATCH_MAX: Final = 512
_CLOSE_S: Final = 2.0
_FINISH: Final = {"max_output_tokens": "length", "turn_detected": "interrupted", "client_cancelled": "cancelled"}
"""Reasons of ours by the names that readers of gen_ai spans know; the rest stands as it is."""


class TurnExporter:
    """Sends turns to a collector.

    Args:
        endpoint: the collector's base URL; None takes it from the standard OTEL_EXPORTER_OTLP_… variables.
        queue_max: spans that wait; overflow rule: `drop_newest`.
        model: name of the model pack.
        unix_ns: converts a moment of the process's clock to Unix time in nanoseconds.
    """

    def __init__(self, *, endpoint: str | None, queue_max: int, model: str, unix_ns: Callable[[MonoNs], int]) -> None:
        self._model = model
        self._unix_ns = unix_ns
        self._exporter = OTLPSpanExporter(endpoint=None if endpoint is None else endpoint.rstrip("/") + _TRACES_PATH)
        self._provider = TracerProvider(
            resource=Resource.create({SERVICE_NAME: "duplex", SERVICE_VERSION: duplex.__version__}),
            span_limits=SpanLimits(max_events=SPANS_MAX),
            shutdown_on_exit=False,
        )
        batch = min(_BATCH_MAX, queue_max)
        self._provider.add_span_processor(
            BatchSpanProcessor(self._exporter, max_queue_size=queue_max, max_export_batch_size=batch)
        )
        self._tracer = self._provider.get_tracer("duplex", duplex.__version__)

    def export(self, turn: Turn) -> None:
        """Queue a turn's spans; returns at once."""
        root = self._tracer.start_span(
            f"chat {self._model}",
            context=trace.set_span_in_context(trace.INVALID_SPAN),
            kind=SpanKind.INTERNAL,
            attributes=_attributes(turn, self._model),
            start_time=self._unix_ns(turn.started_at),
        )
        for name, at, attributes in turn.events:
            named = {f"duplex.{key}": value for key, value in attributes.items()}
            root.add_event(f"duplex.barge_in.{name}", named, self._unix_ns(at))
        if turn.reply.status == "failed":
            root.set_status(Status(StatusCode.ERROR, turn.reply.reason))
        inside = trace.set_span_in_context(root)
        for span in turn.stages:
            child = self._tracer.start_span(
                f"{span.role.value} {span.stage}",
                context=inside,
                attributes=_stage_attributes(span),
                start_time=self._unix_ns(span.queued_at),
            )
            if span.outcome == "failed":
                child.set_status(Status(StatusCode.ERROR))
            child.end(self._unix_ns(span.ended_at))
        root.end(self._unix_ns(turn.ended_at))

    def close(self) -> None:
        """Send what waits, and stop the thread; a collector that does not answer is given up after a few seconds.

        Blocks: not for the loop's thread.
        """
        give_up = threading.Timer(_CLOSE_S, self._exporter.shutdown)  # ends its retries, which last for ten seconds
        give_up.start()
        self._provider.shutdown()
        give_up.cancel()


def _attributes(turn: Turn, model: str) -> dict[str, AttributeValue]:
    reply = turn.reply
    attributes: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "duplex",
        "gen_ai.request.model": model,
        "gen_ai.response.model": model,
        "gen_ai.response.id": reply.id,
        "gen_ai.conversation.id": turn.conversation_id,
        "gen_ai.output.type": "speech" if reply.modality == "audio" else "text",
        "gen_ai.request.stream": True,
        "gen_ai.usage.input_tokens": reply.input_tokens,
        "gen_ai.usage.output_tokens": reply.output_text_tokens,
        "gen_ai.response.finish_reasons": (_finish_reason(turn),),
        "duplex.reply.status": reply.status,
        "duplex.epoch": turn.epoch,
        "duplex.stage_jobs_left_out": turn.stages_left_out,
    }
    if reply.tokens_max is not None:
        attributes["gen_ai.request.max_tokens"] = reply.tokens_max
    if reply.status == "failed":
        attributes["error.type"] = reply.reason or "failed"
    if "ttfas" in turn.split:
        attributes["gen_ai.response.time_to_first_chunk"] = turn.split["ttfas"]
    return attributes | {f"duplex.split.{part}_s": seconds for part, seconds in turn.split.items()}


def _finish_reason(turn: Turn) -> str:
    reply = turn.reply
    if reply.status == "completed":
        return "stop"
    reason = reply.reason or reply.status
    return _FINISH.get(reason, reason)


def _stage_attributes(span: StageSpan) -> dict[str, AttributeValue]:
    began = span.ended_at if span.began_at is None else span.began_at
    return {
        "duplex.stage": span.stage,
        "duplex.outcome": span.outcome,
        "duplex.batch": span.batch,
        "duplex.queue_s": seconds_from_ns(MonoNs(began - span.queued_at)),
        "duplex.compute_s": seconds_from_ns(MonoNs(span.ended_at - began)),
    }
