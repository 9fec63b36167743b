"""The client packages that are tried, and how the program of each is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

STEPS = ("connect", "configure", "voice turn", "text turn", "barge-in", "tool call", "clean end")
"""What every client is tried at, in the order of the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A package, used in one way."""

    package: str
    """As its registry calls it."""
    language: Literal["python", "npm"]
    way: str
    """What of it is used, and over what."""
    program: str
    """File of programs/, without its ending."""
    runs: Literal["here", "venv", "node", "page"]
    """In this environment, in that of the clients, in Node, or in a page in Chromium."""
    lacks: tuple[str, ...] = ()
    """Steps for which it has no means."""

    @property
    def id(self) -> str:
        """The name of its test."""
        return self.program


CLIENTS = (
    Client(
        package="openai", language="python", way="realtime over WebSocket; client_secrets, calls, hangup",
        program="openai_python", runs="here",
    ),
    Client(
        package="openai-agents", language="python", way="RealtimeRunner, WebSocket", program="agents_python", runs="venv"
    ),
    Client(
        package="livekit-plugins-openai", language="python", way="RealtimeModel, WebSocket", program="livekit_plugin",
        runs="venv",
    ),
    Client(
        package="pipecat-ai", language="python", way="OpenAIRealtimeLLMService, WebSocket", program="pipecat_service",
        runs="venv",
    ),
    Client(
        package="openai", language="npm", way="realtime/ws in Node, WebSocket", program="openai_node", runs="node"
    ),
    Client(
        package="openai", language="npm", way="realtime/webrtc and calls in a page, WebRTC", program="openai_page",
        runs="page",
    ),
    Client(
        package="@openai/agents-realtime", language="npm", way="RealtimeSession in Node, WebSocket",
        program="agents_node", runs="node",
    ),
    Client(
        package="@openai/agents-realtime", language="npm", way="RealtimeSession in a page, WebRTC",
        program="agents_page", runs="page",
    ),
    Client(
        package="@pipecat-ai/client-js", language="npm", way="SmallWebRTCTransport in a page, WebRTC",
        program="pipecat_page", runs="page",
    ),
    Client(
        package="whip-whep", language="npm", way="WHIPClient in a page, WebRTC", program="whip_page", runs="page",
        lacks=("configure", "text turn", "barge-in", "tool call"),
    ),
)  # fmt: skip
