"""`duplex replay`: run a recorded session's core again on what it was told, and compare what it asks for.

No engine, network or clock takes part: the file holds what they said. The first effect that is another one ends it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from duplex.payloads import JobId
from duplex.session.core import SessionCore
from duplex.telemetry.recording.codec import plain
from duplex.telemetry.recording.layout import (
    SCHEMA,
    RecordingError,
    StoredStep,
    Tape,
    canonical,
    code_hash,
    hash_of,
    restored_settings,
)
from duplex.telemetry.recording.taped import SeededIds
from duplex.units import seconds_from_ns

_SHOWN_MAX: Final = 8
"""Places shown at which two effects differ."""
_TEXT_MAX: Final = 160
_END: Final = "(nothing)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first effect that is not the recorded one."""

    step: int
    at_s: float
    """Seconds since the session's first step."""
    message: str
    """What the core was told."""
    effect: int
    """Number of the effect within the step, from 1."""
    expected: Any
    """The recorded effect in plain form; None: there was none."""
    got: Any
    """The core's; None: it gave none."""
    where: list[tuple[str, str, str]]
    """The places at which they differ: path, recorded, got; the first few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What came of it."""

    session: str
    same: bool
    steps: int
    """Steps run, the differing one included."""
    effects: int
    """Effects that were the same."""
    seconds: float
    """Of the session."""
    end: str | None
    """Why the recording ends; None: it breaks off, and was run as far as it goes."""
    raised: str | None
    """Exception with which the session broke, as it does again."""
    warnings: list[str]
    difference: Difference | None


def replay(path: Path, force: bool = False) -> Replay:
    """Run a recording again, to its end or to the first difference.

    Args:
        path: of the file.
        force: run one whose schema or settings are not what they claim to be.
    Raises:
        OSError: the file cannot be read.
        RecordingError: it is no recording, is damaged, or needs `force`.
    """
    tape = Tape(path, force)
    warnings = _warnings(tape, force)
    try:
        run = _Run(tape)
    except (AttributeError, TypeError, ValueError) as error:
        raise RecordingError(f"no core can be made of its header: {error}") from error
    difference = run.to_the_end()
    if difference is None and tape.end is None:
        warnings.append(f"the recording breaks off; it was run to its last whole step, {run.steps}")
    if tape.end not in (None, "ended"):
        warnings.append(f"the recording ends before its session: {tape.end}")
    return Replay(
        session=tape.header.session,
        same=difference is None,
        steps=run.steps,
        effects=run.effects,
        seconds=run.seconds,
        end=tape.end,
        raised=run.raised,
        warnings=warnings,
        difference=difference,
    )


def _warnings(tape: Tape, force: bool) -> list[str]:
    header, warnings = tape.header, []
    if tape.schema != SCHEMA:
        warnings.append(f"the file is of schema {tape.schema}, read as {SCHEMA}")
    if hash_of(header.settings) != header.settings_hash:
        said = "the settings in the file are not those that the session had"
        if not force:
            raise RecordingError(f"{said} (--force runs it with them)")
        warnings.append(said)
    if header.code != (present := code_hash()):
        warnings.append(f"recorded by other code: {header.version} {header.code}, this is {present}")
    return warnings


class _Run:
    """One core on its way through its recording."""

    def __init__(self, tape: Tape) -> None:
        header = tape.header
        self._tape = tape
        self._drawn: Iterator[int] = iter(())
        self._beyond = itertools.count(-1, -1)
        settings = restored_settings(header.settings)
        self._core = SessionCore(
            header.session, header.config, settings, header.traits, SeededIds(header.seed), self._next_job
        )
        self._began: int | None = None
        self.steps = 0
        self.effects = 0
        self.seconds = 0.0
        self.raised: str | None = None

    def _next_job(self) -> JobId:
        """Return the number that was drawn then; a core that draws more gets ones that no job has."""
        return JobId(next(self._drawn, None) or next(self._beyond))  # numbers begin at 1

    def to_the_end(self) -> Difference | None:
        for step in self._tape.steps():
            self.steps += 1
            self._began = step.at if self._began is None else self._began
            self.seconds = seconds_from_ns(step.at - self._began)
            difference = self._compare(step, self._effects_of(step))
            if difference is not None:
                return difference
        return None

    def _effects_of(self, step: StoredStep) -> Iterator[Any]:
        """Yield what the core gives for a step, in plain form; an exception as an effect of its own."""
        self._drawn = iter(step.jobs)
        try:
            if step.message is None:
                self._core.handle_timeout(step.at)
            else:
                self._core.handle(step.message, step.at)
            while (effect := self._core.poll()) is not None:
                yield plain(effect)
        except Exception as error:  # noqa: BLE001 - a core that breaks is an outcome to be compared
            yield _raised(type(error).__name__)

    def _compare(self, step: StoredStep, given: Iterator[Any]) -> Difference | None:
        recorded: list[Any] = list(step.effects)
        if step.raised is not None:
            recorded.append(_raised(step.raised))
        for number, (expected, got) in enumerate(itertools.zip_longest(recorded, given), 1):
            if expected is None and not step.drained:
                break  # the session broke off here, with effects that nobody took
            if expected is None or got is None or canonical(expected) != canonical(got):
                return Difference(
                    step=self.steps, at_s=self.seconds, message=_told(step), effect=number, expected=expected, got=got,
                    where=list(itertools.islice(_places(expected, got, ""), _SHOWN_MAX)),
                )  # fmt: skip
            self.effects += 1
        self.raised = step.raised
        return None


def _raised(name: str) -> dict[str, str]:
    return {"$": "exception", "class": name}


def _told(step: StoredStep) -> str:
    return "its deadline" if step.message is None else _short(repr(step.message))


def _places(expected: Any, got: Any, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield the places at which two plain values differ."""
    if canonical(expected) == canonical(got):
        return
    if isinstance(expected, dict) and isinstance(got, dict) and expected.get("$") == got.get("$"):
        for key in sorted(expected.keys() | got.keys()):
            yield from _places(expected.get(key), got.get(key), f"{path}.{key}" if path else key)
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for i, (one, other) in enumerate(zip(expected, got, strict=True)):
            yield from _places(one, other, f"{path}[{i}]")
    else:
        yield path, _shown(expected), _shown(got)


def _shown(value: Any) -> str:
    return _END if value is None else _short(canonical(value))


def _short(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…"


def describe(result: Replay) -> str:
    """Return what came of it as lines for people."""
    lines = [f"warning: {warning}" for warning in result.warnings]
    what = f"{result.session}: {result.steps} steps, {result.effects} effects, {result.seconds:.1f} s"
    if result.difference is None:
        broke = f"; the session broke with {result.raised}, and does again" if result.raised else ""
        return "\n".join([*lines, f"the same: {what}{broke}"])
    found = result.difference
    kind = (found.expected or found.got)["$"]
    lines += [
        f"DIFFERENT: {what} up to there",
        f"  at {found.at_s:.3f} s, step {found.step}, told {found.message}",
        f"  effect {found.effect}, {kind}:",
    ]
    for path, expected, got in found.where:
        lines.append(f"    {path + ': ' if path else ''}recorded {expected}")
        lines.append(f"    {' ' * (len(path) + 2 if path else 0)}     got {got}")
    return "\n".join(lines)


def to_json(result: Replay) -> str:
    """Return it as one JSON object."""
    return json.dumps(asdict(result))
