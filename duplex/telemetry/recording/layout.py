"""A recording as a file: gzip over lines of JSON, so that `zcat` shows it and one that breaks off is read up to there.

    {"schema": 1, "header": {"$": "Header", "session": "sess_…", "code": "…", "settings": {…}, "seed": "…", …}}
    {"at": 8123…, "in": {"$": "Heard", …}, "jobs": [17], "out": [{"$": "Submit", …}, …]}        one line for each step
    {"at": 8124…, "in": null, "jobs": [], "out": []}                                            null: a deadline came
    {"end": "ended", "steps": 2}

`at` is in nanoseconds of the recording process's monotonic clock.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duplex
from duplex.config import Settings
from duplex.session.config import SessionConfig
from duplex.session.messages import Inbound
from duplex.session.traits import Traits
from duplex.telemetry.recording.codec import CodecError, from_plain, plain
from duplex.telemetry.recording.taped import Step
from duplex.units import MonoNs

SCHEMA: Final = 1
"""Of a recording's lines; another one is not read."""
SUFFIX: Final = ".jsonl.gz"
_CORE_PARTS: Final = ("units.py", "config", "payloads.py", "timeline", "pacing", "session")
"""What decides how a core behaves, below the package's folder."""
_UNRECORDED: Final = frozenset({"server", "model", "telemetry", "recording"})
"""Sections that no core reads, and that may name keys, addresses or folders."""
_GZIP_WINDOW: Final = 31
_CHUNK: Final = 1 << 16
_LINE_BYTES_MAX: Final = 64 * 1024 * 1024


class RecordingError(Exception):
    """A file is no recording, is damaged, or is not one that this code can run again; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a recording begins with: what the session was, and of which code and which model."""

    session: str
    version: str
    """Of the package."""
    code: str
    """Hash of the core's source."""
    pack: str
    pack_hash: str
    """Of the pack's stages and options."""
    settings: dict[str, Any]
    """Every section that a core may read."""
    settings_hash: str
    traits: Traits
    config: SessionConfig
    seed: str
    """Of the ids."""
    began_unix_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredStep:
    """One step as it was read."""

    at: MonoNs
    message: Inbound | None
    jobs: tuple[int, ...]
    effects: list[Any]
    """In plain form, as `plain` gives them."""
    drained: bool
    raised: str | None


def hash_of(value: Any) -> str:
    """Return the hash of something that JSON can hold: 16 hexadecimal digits, the same for the same content."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


def canonical(value: Any) -> str:
    """Return the one JSON text of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def code_hash() -> str:
    """Return the hash of the source that a core consists of."""
    root = Path(duplex.__file__).parent
    sources = [file for part in _CORE_PARTS for file in (root / part, *(root / part).rglob("*.py")) if file.is_file()]
    digest = hashlib.sha256()
    for file in sorted(sources):
        digest.update(f"{file.relative_to(root).as_posix()}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def recorded_settings(settings: Settings) -> dict[str, Any]:
    """Return the sections that a core may read, as a recording holds them."""
    return settings.model_dump(mode="json", exclude=set(_UNRECORDED))


def restored_settings(written: dict[str, Any]) -> Settings:
    """Return the settings of a recorded core; the environment and the sections that it cannot read stay out.

    Raises:
        RecordingError: this code has other settings.
    """
    parts: dict[str, Any] = {}
    try:
        for name, value in written.items():
            section: Any = Settings.model_fields[name].annotation
            parts[name] = section.model_validate(value) if hasattr(section, "model_validate") else value
    except (KeyError, ValueError) as error:
        raise RecordingError(f"this code has other settings than the recording: {error}") from error
    return Settings.model_construct(**parts)


# Writing. -----------------------------------------------------------------------------------------------------------


def header_line(header: Header) -> bytes:
    """Return a recording's first line."""
    return _line({"schema": SCHEMA, "header": plain(header)})


def step_line(step: Step, keep_pcm: bool) -> bytes:
    """Return one step's line.

    Raises:
        CodecError: something in it has no form.
    """
    written: dict[str, Any] = {
        "at": step.at,
        "in": plain(step.message, keep_pcm),
        "jobs": list(step.jobs),
        "out": [plain(effect) for effect in step.effects],
    }
    if not step.drained:
        written["drained"] = False
    if step.raised is not None:
        written["raised"] = step.raised
    return _line(written)


def end_line(reason: str, steps: int) -> bytes:
    """Return a recording's last line: why it ends, after how many steps."""
    return _line({"end": reason, "steps": steps})


def _line(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


# Reading. -----------------------------------------------------------------------------------------------------------


class Tape:
    """A recording that is read from its beginning to its end, once.

    Args:
        path: the file.
        force: read another schema's file as if it were this one's.
    Raises:
        OSError: it cannot be read.
        RecordingError: it is no recording, or one of another schema.
    """

    def __init__(self, path: Path, force: bool = False) -> None:
        self.end: str | None = None
        """Why it ends, once all steps were read; None: it breaks off."""
        self._lines = _lines(path)
        self._count = 0
        first = next(self._lines, None)
        if first is None:
            raise RecordingError("the file breaks off before its header")
        head = _object(first, "its first line")
        if "schema" not in head or "header" not in head:
            raise RecordingError("the file is no recording of a session")
        self.schema = head["schema"]
        """Of the file's lines."""
        if self.schema != SCHEMA and not force:
            raise RecordingError(f"the file is of schema {self.schema}, this code reads {SCHEMA} (--force tries it)")
        try:
            fields = {key: from_plain(part) for key, part in head["header"].items() if key != "$"}
            self.header = Header(**fields)
        except (CodecError, TypeError, AttributeError) as error:
            raise RecordingError(f"its header is not one that this code knows: {error}") from error

    def steps(self) -> Iterator[StoredStep]:
        """Yield the steps in order.

        Raises:
            RecordingError: the file is damaged, or holds what this code does not know.
        """
        for line in self._lines:
            written = _object(line, f"step {self._count}")
            if "end" in written:
                self._finish(written)
                return
            yield self._step(written)
            self._count += 1

    def _finish(self, written: dict[str, Any]) -> None:
        if written.get("steps") != self._count:
            raise RecordingError(f"the file is damaged: it has {self._count} of {written.get('steps')} steps")
        if next(self._lines, None) is not None:
            raise RecordingError("the file is damaged: it goes on behind its end")
        self.end = str(written["end"])

    def _step(self, written: dict[str, Any]) -> StoredStep:
        try:
            at, jobs, effects = written["at"], written["jobs"], written["out"]
            if type(at) is not int or not isinstance(jobs, list) or not isinstance(effects, list):
                raise CodecError("`at`, `jobs` or `out` is of another type")
            message = from_plain(written["in"])
        except (CodecError, KeyError) as error:
            raise RecordingError(f"step {self._count} is not one that this code knows: {error}") from error
        return StoredStep(
            at=MonoNs(at), message=message, jobs=tuple(jobs), effects=effects, drained=written.get("drained", True),
            raised=written.get("raised"),
        )  # fmt: skip


def _object(line: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise RecordingError(f"the file is damaged: {what} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise RecordingError(f"the file is damaged: {what} is no object")
    return value


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the whole lines of a gzip file up to where it breaks off.

    Raises:
        RecordingError: it is damaged.
    """
    stream, rest = zlib.decompressobj(_GZIP_WINDOW), b""
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            if stream.eof:
                raise RecordingError("the file is damaged: bytes follow its end")
            try:
                rest += stream.decompress(chunk)
            except zlib.error as error:
                raise RecordingError(f"the file is damaged, or no gzip: {error}") from error
            *lines, rest = rest.split(b"\n")
            yield from lines
            if stream.unused_data:
                raise RecordingError("the file is damaged: bytes follow its end")
            if len(rest) > _LINE_BYTES_MAX:
                raise RecordingError(f"the file is damaged: a line is longer than {_LINE_BYTES_MAX} bytes")
