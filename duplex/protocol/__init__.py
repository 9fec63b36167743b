"""Realtime events of the wire ↔ messages and events of the core; nothing else knows the wire."""

from duplex.protocol.audio import samples_of
from duplex.protocol.decode import AppendAudio, ComeBack, Decoded, TransportName, decode
from duplex.protocol.encode import WireEncoder, to_json
from duplex.protocol.errors import (
    CallNotFound,
    ProtocolError,
    RemoteProtocolError,
    ResumeRefused,
    ServerBusy,
    SessionRejected,
    TooManySideChannels,
)
from duplex.protocol.event_ids import sequence_of
from duplex.protocol.session_config import WireProfile, initial

__all__ = [
    "AppendAudio",
    "CallNotFound",
    "ComeBack",
    "Decoded",
    "ProtocolError",
    "RemoteProtocolError",
    "ResumeRefused",
    "ServerBusy",
    "SessionRejected",
    "TooManySideChannels",
    "TransportName",
    "WireEncoder",
    "WireProfile",
    "decode",
    "initial",
    "samples_of",
    "sequence_of",
    "to_json",
]
