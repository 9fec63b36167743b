"""Functions that clients offer to the model."""

from __future__ import annotations

from pydantic import Field

from duplex.config.section import Section


class ToolSettings(Section):
    """Bounds on tools, calls and what they give."""

    tools_max: int = Field(64, ge=1, le=1000)
    """Tools of a session, or of one response."""
    schema_chars_max: int = Field(50_000, ge=100)
    """Characters of all of them together: names, descriptions and parameters as JSON."""
    calls_max: int = Field(8, ge=1, le=100)
    """Calls of one reply; one that goes on to a further call ends there, as `incomplete`."""
    arguments_chars_max: int = Field(20_000, ge=2)
    """Characters of a call's arguments; a reply whose call is longer ends there, as `incomplete`."""
    awaited_max: int = Field(64, ge=1, le=10_000)
    """Calls of a Pipecat client whose results are waited for; past it the oldest is forgotten, and its end told without its name."""
    output_chars_max: int = Field(50_000, ge=1)
    """Characters of what a client says that a call gave."""
