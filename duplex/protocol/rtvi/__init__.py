"""RTVI, the messages of Pipecat's clients ↔ messages and events of the core: the second dialect of a session."""

from duplex.protocol.rtvi.encode import PROTOCOL_VERSION, RtviEncoder
from duplex.protocol.rtvi.wire import ClientReady, DisconnectBot, RtviWire

__all__ = ["PROTOCOL_VERSION", "ClientReady", "DisconnectBot", "RtviEncoder", "RtviWire"]
