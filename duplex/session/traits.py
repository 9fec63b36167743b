"""What a core has to know of the model pack and of the transport."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Fixed for a session's life."""

    transport: Literal["webrtc", "websocket"]
    semantic: bool
    """The pack has an end-of-turn model."""
    pausable: bool
    """Its thinker can be paused."""
    transcribes: bool
    """It has a transcription stage; a model in tick mode may hear without words."""
    tick_mode: bool
