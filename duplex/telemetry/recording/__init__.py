"""Recordings of sessions: all that a core was told, and all that it asked for, so that `duplex replay` can run it again.

    loop     TapedCore ──► a bounded queue of steps          (nothing is encoded, no disk is touched)
    thread       Recorder ◄──┘ ──► codec ──► gzip ──► one file per session

docs/recording.md says what a file holds, who may read it, and what it costs.
"""

from duplex.telemetry.recording.codec import CodecError, from_plain, plain
from duplex.telemetry.recording.layout import SCHEMA, Header, RecordingError, StoredStep, Tape, code_hash, hash_of
from duplex.telemetry.recording.recorder import PackName, Recorder, open_recorder
from duplex.telemetry.recording.taped import SeededIds, Step, TapedCore

__all__ = [
    "SCHEMA",
    "CodecError",
    "Header",
    "PackName",
    "Recorder",
    "RecordingError",
    "SeededIds",
    "Step",
    "StoredStep",
    "Tape",
    "TapedCore",
    "code_hash",
    "from_plain",
    "hash_of",
    "open_recorder",
    "plain",
]
