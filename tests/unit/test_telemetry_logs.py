"""Log lines are JSON, carry the session, and hold nothing of what was said (field case C70)."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from pydantic import BaseModel, ValidationError

from duplex.telemetry import configure_logging, log_failure

pytestmark = pytest.mark.unit

SECRET = "SECRET123"


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    written = io.StringIO()
    configure_logging("debug", written)
    yield written
    structlog.reset_defaults()
    logging.captureWarnings(False)
    root.handlers[:], root.level = before


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    assert SECRET not in stream.getvalue()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_json_with_the_session_that_is_bound(stream: io.StringIO) -> None:
    with structlog.contextvars.bound_contextvars(session_id="sess_1"):
        structlog.get_logger().info("turn", ttfas_s=0.7)
    (line,) = lines(stream)
    assert (line["event"], line["level"], line["session_id"], line["ttfas_s"]) == ("turn", "info", "sess_1", 0.7)
    assert line["timestamp"].endswith("Z")


@pytest.mark.parametrize("key", ["transcript", "text", "audio", "instructions", "prompt", "sdp", "token", "query"])
def test_content_is_withheld_at_every_level(stream: io.StringIO, key: str) -> None:
    structlog.get_logger().debug("x", **{key: SECRET}, other=1)
    (line,) = lines(stream)
    assert (line[key], line["other"]) == ("[withheld]", 1)


def test_levels_below_the_threshold_are_silent(stream: io.StringIO) -> None:
    configure_logging("warning", stream)
    structlog.get_logger().info("quiet")
    structlog.get_logger().warning("loud")
    assert [line["event"] for line in lines(stream)] == ["loud"]


class Wire(BaseModel):
    number: int


def fail(text: str) -> None:
    try:
        Wire.model_validate({"number": text})
    except ValidationError as error:
        raise RuntimeError(f"could not take {text}") from error


def test_an_exception_is_its_types_and_places_without_its_message(stream: io.StringIO) -> None:
    try:
        fail(SECRET)
    except RuntimeError as error:
        log_failure("session_failed", error, epoch=2)
    (line,) = lines(stream)
    assert line["exception"] == ["RuntimeError", "ValidationError"]
    assert line["frames"][-1].endswith(" fail")
    assert (line["event"], line["level"], line["epoch"]) == ("session_failed", "error", 2)


def test_the_exception_that_is_being_handled_is_shown_alike(stream: io.StringIO) -> None:
    try:
        fail(SECRET)
    except RuntimeError:
        structlog.get_logger().exception("session_failed")
    (line,) = lines(stream)
    assert (line["exception"], line["level"]) == (["RuntimeError", "ValidationError"], "error")


def test_members_of_a_group_are_named(stream: io.StringIO) -> None:
    log_failure("x", ExceptionGroup("g", [KeyError(SECRET), ValueError(SECRET)]))
    assert lines(stream)[0]["exception"] == ["ExceptionGroup", "KeyError", "ValueError"]


def test_foreign_records_come_without_their_arguments(stream: io.StringIO) -> None:
    foreign = logging.getLogger("some.library")
    foreign.info("never shown")
    foreign.warning("request of %s failed\nsecond line %s", SECRET, SECRET)
    try:
        raise ValueError(SECRET)
    except ValueError:
        foreign.exception("broken")
    first, second = lines(stream)
    assert (first["logger"], first["level"], first["format"]) == ("some.library", "warning", "request of %s failed")
    assert (second["exception"], second["level"]) == (["ValueError"], "error")
