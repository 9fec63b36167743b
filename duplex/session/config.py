"""What a client may choose for its session, after the wire's names were resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from duplex.payloads import Toolset


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDetection:
    """How the end of the user's turn is found; None in the session means push to talk."""

    kind: Literal["semantic_vad", "server_vad"] = "semantic_vad"
    eagerness: Literal["low", "medium", "high", "auto"] = "auto"
    threshold: float | None = None
    """VAD probability; None takes the server's."""
    silence_ms: int = 500
    """server_vad only."""
    prefix_padding_ms: int | None = None
    create_response: bool = True
    interrupt_response: bool = True
    idle_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """What the model says first: exactly one of the two."""

    text: str | None = None
    """Spoken as it stands."""
    instructions: str | None = None
    """Said to the thinker in the user's place, and kept in no history: the model greets in words of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """What is done about a conversation that outgrows the thinker's context."""

    trims: bool = True
    """Whole oldest turns go; False: a reply over the bound fails."""
    kept_share: float | None = None
    """Of the bound, 0..1: what is left then; None: the server's."""
    history_max: int | None = None
    """Further bound on the conversation's tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """The session's choices, resolved: every default is filled in."""

    kind: Literal["realtime", "transcription"] = "realtime"
    """A conversation, or a session that writes down what is said and never replies."""
    instructions: str = ""
    voice: str = "default"
    speed: float = 1.0
    modalities: tuple[str, ...] = ("audio",)
    """`("audio",)` (speech with its transcript) or `("text",)`."""
    tokens_max: int | None = None
    turn_detection: TurnDetection | None = field(default_factory=TurnDetection)
    transcribe: bool = True
    """Send the user's transcript to the client (the thinker gets it in any case)."""
    on_onset: Literal["duck", "hold", "none"] = "duck"
    noise_reduction: bool = False
    """Suppress noise in what is heard (where the server processes audio)."""
    echo_cancellation: bool = False
    """Cancel the echo of what is sent (the same; WebRTC)."""
    lead_ms: int | None = None
    """Run-ahead of WebSocket audio; None is unlimited."""
    resume: bool = False
    """The client keeps a token and comes back with it when its connection is lost."""
    toolset: Toolset = Toolset()
    """What replies may call."""
    truncation: Truncation = field(default_factory=Truncation)
    greeting: Greeting | None = None
    """None: the user speaks first."""
    open_fields: frozenset[str] | None = None
    """Paths of the session object that the client may change; None: all. Carried, never read, by the core."""
    wire: Mapping[str, Any] = field(default_factory=dict)
    """The session object as the client sees it; carried, never read, by the core."""
