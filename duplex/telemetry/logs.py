"""JSON lines on standard error: an event's name, keys and values, the session's id; never what was said.

What a log line may not hold (transcripts, prompts, audio, SDP, keys) is kept out in three ways, at every level:

- our own lines carry names and numbers, and a key that names such content is withheld by `_withhold`;
- an exception is shown as its types and the lines of code it came through, without its message and without locals,
  because libraries quote their input in messages;
- a foreign library's record is shown from WARNING up, as its format string without the arguments.

Source: DESIGN.md §3; STYLE.md §8; field case C70.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import MutableMapping
from typing import Any, Final, Literal, TextIO

import structlog

Level = Literal["debug", "info", "warning", "error"]
_WITHHELD: Final = frozenset({
    "answer", "api_key", "audio", "authorization", "content", "delta", "headers", "instructions", "items", "key",
    "message", "messages", "offer", "payload", "pcm", "prompt", "query", "sdp", "secret", "text", "token", "transcript",
    "url",
})  # fmt: skip
"""Keys whose values never reach a log."""
_FRAMES_MAX = 20
_EventDict = MutableMapping[str, Any]


def configure_logging(level: Level, stream: TextIO | None = None) -> None:
    """Send the process's logs to `stream` (standard error by default) as JSON lines.

    `session_id` and whatever else is bound by `structlog.contextvars.bound_contextvars` stands in every line.
    """
    threshold = getattr(logging, level.upper())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _withhold,
            _shorten_exception,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=lambda *names: structlog.PrintLogger(stream or sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(handlers=[_ForeignRecords()], level=logging.WARNING, force=True)
    logging.captureWarnings(True)


def log_failure(name: str, error: BaseException, **values: Any) -> None:
    """Log an exception that ended a task or a request; called at the root that ends with it."""
    structlog.get_logger().error(name, exc_info=error, **values)


class _ForeignRecords(logging.Handler):
    """Hands the records of other libraries to our log, without what they were about."""

    def emit(self, record: logging.LogRecord) -> None:
        values: dict[str, Any] = {"logger": record.name, "format": str(record.msg).partition("\n")[0][:200]}
        if record.exc_info and record.exc_info[1] is not None:
            values["exc_info"] = record.exc_info[1]
        log = structlog.get_logger()
        (log.error if record.levelno >= logging.ERROR else log.warning)("foreign_log", **values)


def _withhold(logger: object, method: str, line: _EventDict) -> _EventDict:
    for key in line.keys() & _WITHHELD:
        line[key] = "[withheld]"
    return line


def _shorten_exception(logger: object, method: str, line: _EventDict) -> _EventDict:
    error = line.pop("exc_info", None)
    if error is True:  # of `log.exception`
        error = sys.exc_info()[1]
    if not isinstance(error, BaseException):
        return line
    line["exception"] = list(_types(error))
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES_MAX:]
    line["frames"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    return line


def _types(error: BaseException) -> list[str]:
    """Return the names of an exception's type and of those it came from, members of groups included."""
    names = [type(error).__qualname__]
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            names += _types(member)
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return names + (_types(cause) if cause is not None else [])
