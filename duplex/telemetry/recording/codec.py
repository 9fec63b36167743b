"""What a core takes and gives, as JSON and back: each object says its own class.

    Heard(span=Span(0, 1536), …)   {"$": "Heard", "span": {"$": "Span", "start": 0, "end": 1536}, …}
    (1, 2)                         [1, 2]                                     tuples are what messages are made of
    [1, 2]                         {"$": "list", "of": [1, 2]}                lists stand in a client's own objects
    sound                          {"$": "pcm", "samples": 7200, "hash": "…"} and its samples, if they are kept and not the user's
    an image's bytes               {"$": "bytes", "size": 4711, "hash": "…"}  never the bytes themselves
    what only a stage understands  {"$": "opaque", "type": "ndarray"}

A core counts samples and never looks at them, so a sound comes back as a `Silhouette`: its length and its hash. Only
classes that a message can hold come back (`_known` finds them by the annotations), so that a file cannot make others.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, get_args, get_type_hints

import numpy as np

from duplex.payloads import Latents, Utterance
from duplex.session.config import SessionConfig
from duplex.session.messages import Inbound
from duplex.session.traits import Traits

_CLASS: Final = "$"
_HASH_BYTES: Final = 16


class CodecError(Exception):
    """A value cannot be written, or what was written is not what this code knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Silhouette:
    """A sound without its samples."""

    samples: int
    hash: str
    """BLAKE2b, 128 bits, of the samples as little-endian int16."""

    def __len__(self) -> int:
        return self.samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Opaque:
    """Stands for what only a stage understands: the data of `Latents`."""

    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """Stands for the bytes of an image."""

    size: int
    hash: str
    """BLAKE2b, 128 bits."""


def plain(value: Any, keep_pcm: bool = False) -> Any:
    """Return a value as JSON can hold it.

    Args:
        value: a message, an effect, or a part of one.
        keep_pcm: write samples too, not only their hash.
    Raises:
        CodecError: there is no form for it.
    """
    kind: type = type(value)
    return _writer_of(kind)(value, keep_pcm)


_Writer = Callable[[Any, bool], Any]


def _itself(value: Any, keep_pcm: bool) -> Any:
    return value


def _enum(value: Enum, keep_pcm: bool) -> Any:
    return {_CLASS: type(value).__name__, "value": value.value}


def _number(value: np.generic, keep_pcm: bool) -> Any:
    return value.item()


def _tuple(value: tuple[Any, ...], keep_pcm: bool) -> Any:
    return [plain(part, keep_pcm) for part in value]


def _list(value: list[Any], keep_pcm: bool) -> Any:
    return {_CLASS: "list", "of": [plain(part, keep_pcm) for part in value]}


def _mapping(value: Mapping[Any, Any], keep_pcm: bool) -> Any:
    if _CLASS in value or not all(type(key) is str for key in value):
        return {_CLASS: "dict", "of": [[plain(key), plain(part, keep_pcm)] for key, part in value.items()]}
    return {key: plain(part, keep_pcm) for key, part in value.items()}


def _pcm(samples: np.ndarray[Any, Any], keep_pcm: bool) -> Any:
    if samples.dtype != np.int16 or samples.ndim != 1:
        raise CodecError(f"an array of {samples.dtype}, shape {samples.shape}, has no form in a recording")
    raw = samples.astype("<i2", copy=False).tobytes()
    digest = hashlib.blake2b(raw, digest_size=_HASH_BYTES).hexdigest()
    written: dict[str, Any] = {_CLASS: "pcm", "samples": len(samples), "hash": digest}
    if keep_pcm:
        written["data"] = base64.b64encode(raw).decode("ascii")
    return written


def _silhouette(value: Silhouette, keep_pcm: bool) -> Any:
    return {_CLASS: "pcm", "samples": value.samples, "hash": value.hash}


def _opaque(value: Opaque, keep_pcm: bool) -> Any:
    return {_CLASS: "opaque", "type": value.type}


def _bytes(value: bytes, keep_pcm: bool) -> Any:
    digest = hashlib.blake2b(value, digest_size=_HASH_BYTES).hexdigest()
    return {_CLASS: "bytes", "size": len(value), "hash": digest}


def _withheld(value: Withheld, keep_pcm: bool) -> Any:
    return {_CLASS: "bytes", "size": value.size, "hash": value.hash}


def _latents(value: Latents, keep_pcm: bool) -> Any:
    if not isinstance(value.data, Opaque):
        value = dataclasses.replace(value, data=Opaque(type=type(value.data).__name__))
    return _fields_of(Latents)(value, keep_pcm)


def _utterance(value: Utterance, keep_pcm: bool) -> Any:
    return _fields_of(Utterance)(value, False)  # the user's sound is never kept


_WRITERS: Final[tuple[tuple[type, _Writer], ...]] = (
    (Enum, _enum), (np.generic, _number), (bool, _itself), (int, _itself), (float, _itself), (str, _itself),
    (type(None), _itself), (tuple, _tuple), (list, _list), (np.ndarray, _pcm), (Silhouette, _silhouette),
    (bytes, _bytes), (Withheld, _withheld), (Opaque, _opaque), (Latents, _latents), (Utterance, _utterance),
    (Mapping, _mapping),
)  # fmt: skip
"""How each kind is written; the first that fits."""


@functools.cache
def _writer_of(cls: type) -> _Writer:
    for kind, writer in _WRITERS:
        if issubclass(cls, kind):
            return writer
    if dataclasses.is_dataclass(cls):
        return _fields_of(cls)
    raise CodecError(f"a {cls.__name__} has no form in a recording")


@functools.cache
def _fields_of(cls: type) -> _Writer:
    """Return what writes a dataclass."""
    names = tuple(field.name for field in dataclasses.fields(cls))

    def write(value: Any, keep_pcm: bool) -> Any:
        written: dict[str, Any] = {_CLASS: cls.__name__}
        for name in names:
            written[name] = plain(getattr(value, name), keep_pcm)
        return written

    return write


def from_plain(written: Any) -> Any:
    """Return what `plain` was given, sounds as `Silhouette`s.

    Raises:
        CodecError: it names a class that no message holds, or one with other fields.
    """
    if isinstance(written, list):
        return tuple(from_plain(part) for part in written)
    if not isinstance(written, dict):
        return written
    if _CLASS not in written:
        return {key: from_plain(part) for key, part in written.items()}
    name = written[_CLASS]
    try:
        match name:
            case "pcm":
                return Silhouette(samples=written["samples"], hash=written["hash"])
            case "bytes":
                return Withheld(size=written["size"], hash=written["hash"])
            case "opaque":
                return Opaque(type=written["type"])
            case "list":
                return [from_plain(part) for part in written["of"]]
            case "dict":
                return {from_plain(key): from_plain(part) for key, part in written["of"]}
        cls = _known()[name]
        parts = {key: from_plain(part) for key, part in written.items() if key != _CLASS}
        return cls(parts["value"]) if issubclass(cls, Enum) else cls(**parts)
    except (KeyError, TypeError, ValueError) as error:
        raise CodecError(f"this code knows no such {name}: {error}") from error


@functools.cache
def _known() -> dict[str, type]:
    """Return the classes that can come back, by name: all that stand in the annotations of messages."""
    found: dict[str, type] = {}
    waiting: list[Any] = [Inbound, SessionConfig, Traits]
    while waiting:
        annotation = waiting.pop()
        waiting.extend(get_args(annotation))
        if not inspect.isclass(annotation) or annotation in found.values():
            continue
        if dataclasses.is_dataclass(annotation):
            waiting.extend(get_type_hints(annotation).values())
        elif not issubclass(annotation, Enum):
            continue
        assert annotation.__name__ not in found, f"two classes are called {annotation.__name__}"
        found[annotation.__name__] = annotation
    return found
