"""Traces: who comes when, says how much, and does what while the answer plays. One frozen file, made beforehand.

A trace is JSON lines. The first line is the header, every further line one session:

    {"duplex_trace": 1, "name": "sparse", "about": "…", "arrivals": "open", "arrivals_cv": 1.0, "made_by": "…"}
    {"session": "s001", "at_s": 0.0, "tenant": "default", "turns": [
        {"gap_s": 0.8, "speech_s": 2.4, "words": 6, "pauses": [[1.1, 0.4]], "answer_words": 30,
         "interrupt_after_s": null, "backchannels": [[2.0, 0.3]]}, …]}

All times are seconds. `gap_s` runs from the session's start (first turn) or from the end of the answer as it was heard.
`interrupt_after_s` runs from the answer's first audible sample: that long into it the speaker begins the next turn, whose
gap is then not waited for; an answer that ends before is not interrupted. `answer_words` is how long the answer is; a
running server answers as it will, so it counts in the simulator only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

VERSION = 1
CV_MAX = 20


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Turn(_Line):
    """One turn of the user, and what the user does while it is answered."""

    gap_s: float = Field(ge=0, le=3600)
    """Silence before it."""
    speech_s: float = Field(gt=0, le=60)
    """Its length, pauses included."""
    words: int = Field(ge=1, le=1000)
    """Words that are spoken in it."""
    pauses: tuple[tuple[float, float], ...] = ()
    """(start, length) of silences inside it."""
    answer_words: int = Field(ge=1, le=2000)
    """Words of the answer, if nobody interrupts it."""
    interrupt_after_s: float | None = Field(None, ge=0, le=600)
    """Into the answer, when the user speaks the next turn over it; None: the user lets it end."""
    backchannels: tuple[tuple[float, float], ...] = ()
    """(start into the answer, length) of short sounds that mean no interruption."""

    @model_validator(mode="after")
    def _inside(self) -> Turn:
        at = 0.0
        for start, length in self.pauses:
            if start <= at or length <= 0 or start + length >= self.speech_s:
                raise ValueError(f"pause at {start} s: pauses follow each other inside the speech of {self.speech_s} s")
            at = start + length
        for start, length in self.backchannels:
            if start < 0 or not 0 < length <= 2:
                raise ValueError(f"backchannel at {start} s: it starts inside the answer and lasts at most 2 s")
        return self


class SessionTrace(_Line):
    """One caller."""

    session: str = Field(min_length=1, max_length=64)
    at_s: float = Field(ge=0)
    """Arrival, from the trace's start."""
    tenant: str = Field("default", min_length=1, max_length=64)
    turns: tuple[Turn, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _ends(self) -> SessionTrace:
        if self.turns[-1].interrupt_after_s is not None:
            raise ValueError("the last turn's answer cannot be interrupted: no turn follows")
        return self


class Header(_Line):
    """The first line."""

    duplex_trace: Literal[1]
    name: str = Field(min_length=1, max_length=64)
    about: str = ""
    arrivals: Literal["open", "closed"] = "open"
    """open: sessions come at `at_s`, whatever the server does. closed: a fixed number at once, the next when one ends."""
    arrivals_cv: float = Field(1.0, ge=0, le=CV_MAX)
    """Coefficient of variation of the times between arrivals when they are drawn anew: 1 is Poisson, more is bursty."""
    made_by: str = ""
    """The command that made it."""


class TraceError(ValueError):
    """A trace cannot be read; the message names the file, the line and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A whole trace, in order of arrival."""

    header: Header
    sessions: tuple[SessionTrace, ...]

    @property
    def rate(self) -> float:
        """Sessions per second."""
        last = self.sessions[-1].at_s
        return (len(self.sessions) - 1) / last if last else float("inf")

    @property
    def turns(self) -> int:
        """Turns of all sessions."""
        return sum(len(session.turns) for session in self.sessions)


def parse(lines: Iterable[str], source: str = "trace") -> Trace:
    """Read a trace from its lines.

    Args:
        lines: with or without line ends; empty ones are skipped.
        source: what messages call it.
    Raises:
        TraceError: `SOURCE:LINE: reason`.
    """
    header: Header | None = None
    sessions: list[SessionTrace] = []
    names: set[str] = set()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{source}:{number}"
        parsed = _parse_line(line, where, Header if header is None else SessionTrace)
        if isinstance(parsed, Header):
            header = parsed
            continue
        if parsed.session in names:
            raise TraceError(f"{where}: session {parsed.session!r} is there twice")
        if sessions and parsed.at_s < sessions[-1].at_s:
            raise TraceError(f"{where}: at_s {parsed.at_s} is before the session above it")
        names.add(parsed.session)
        sessions.append(parsed)
    if header is None:
        raise TraceError(f"{source}: it is empty; the first line has to be the header")
    if not sessions:
        raise TraceError(f"{source}: no session after the header")
    return Trace(header=header, sessions=tuple(sessions))


def read(path: Path) -> Trace:
    """Read a trace file; a bare name (`busy`) is one of those that come with the project.

    Raises:
        TraceError: it is not there, or `parse` refuses it.
    """
    if not path.exists() and path.suffix == "" and path.parent == Path():
        path = Path(__file__).parent / "traces" / f"{path}.jsonl"
    try:
        with path.open(encoding="utf-8") as lines:
            return parse(lines, path.name)
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: {error}") from error


def dump(trace: Trace) -> Iterator[str]:
    """Give the lines of a trace file, without line ends."""
    yield json.dumps(trace.header.model_dump(), ensure_ascii=False)
    for session in trace.sessions:
        yield json.dumps(session.model_dump(exclude_defaults=True), ensure_ascii=False)


def _parse_line(line: str, where: str, kind: type[Header] | type[SessionTrace]) -> Header | SessionTrace:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{where}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise TraceError(f"{where}: not a JSON object")
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"]))
        reason = first["msg"].removeprefix("Value error, ")
        raise TraceError(f"{where}: {at + ': ' if at else ''}{reason}") from error
