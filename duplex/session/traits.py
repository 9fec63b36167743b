"""What a core has to know of the model pack, of the transport and of whose session it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from duplex.session.context import ContextBound


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
    words_tell: bool = False
    """What is said over a reply is transcribed well enough to tell a backchannel from an interruption."""
    hears_language: str | None = None
    """The one language of its transcripts."""
    reads: bool = False
    """The pack has a stage that reads the camera."""
    bounded: bool = True
    """Generation keeps to the lead target; False: it runs as far ahead as it can (scheduling policies for comparison)."""
    tenant: str = "default"
    """Whose share of the stages the session takes."""
    speculates: bool = True
    """Replies may be begun that are thrown away; False for an engine that is billed by use."""
    context: ContextBound | None = None
    """What the thinker reads at once; None: any length."""
    prefills: bool = False
    """Its thinker reads ahead."""
    speaking_rate_wpm: int = 170
    """Words a minute of the voice, until it is measured."""
