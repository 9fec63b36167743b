"""`truncation` of a session: what is done about a conversation that outgrows the thinker's context.

    auto                                      whole oldest turns go, down to the server's `conversation.history_kept_share`
    {type: retention_ratio, retention_ratio}  the same, down to this share; `token_limits.post_instructions` lowers the bound
    disabled                                  nothing goes: a response over the bound fails with `context_length_exceeded`

Source: `openai.types.realtime.RealtimeTruncation` (openai 3.57.0); docs/sessions.md.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from duplex.protocol import errors
from duplex.protocol.errors import RemoteProtocolError
from duplex.protocol.wire_session import WireModel, read
from duplex.session.config import Truncation

_AUTO = "auto"
_DISABLED = "disabled"


class TokenLimitsAsked(WireModel):
    """Bounds of what the model is given."""

    post_instructions: Annotated[int, Field(ge=64, le=10_000_000)] | None = None
    """Tokens of the conversation, without the instructions."""


class RetentionRatioAsked(WireModel):
    """How much of a conversation that has outgrown the context is kept."""

    type: Literal["retention_ratio"]
    retention_ratio: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    """Share of the bound that is kept."""
    token_limits: TokenLimitsAsked | None = None
    """Further bounds."""


def shown_truncation(asked: Any, param: str) -> Any:
    """Return the choice as the session object shows it; None: the default.

    Args:
        asked: as the client sent it.
        param: its path.
    Raises:
        RemoteProtocolError: names the field that is wrong.
    """
    if asked is None or asked in (_AUTO, _DISABLED):
        return asked or _AUTO
    if not isinstance(asked, dict):
        message = f'Invalid value for \'{param}\': should be "auto", "disabled" or {{"type": "retention_ratio", …}}.'
        raise RemoteProtocolError(errors.INVALID_VALUE, message, param)
    taken: RetentionRatioAsked = read(RetentionRatioAsked, asked, f"{param}.")
    shown: dict[str, Any] = {"type": taken.type, "retention_ratio": float(taken.retention_ratio)}
    if taken.token_limits is not None and taken.token_limits.post_instructions is not None:
        shown["token_limits"] = {"post_instructions": taken.token_limits.post_instructions}
    return shown


def truncation_of(shown: Any) -> Truncation:
    """Return what a session object's `truncation` means."""
    if isinstance(shown, dict):
        limits = shown.get("token_limits", {})
        return Truncation(kept_share=shown["retention_ratio"], history_max=limits.get("post_instructions"))
    return Truncation(trims=shown != _DISABLED)
