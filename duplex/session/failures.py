"""What a client is told, beside `response.done`, of a reply that has failed."""

from __future__ import annotations

from typing import Final

from duplex.session.events import Failure, StatusReason

CONTEXT_EXCEEDED: Final = "context_length_exceeded"
CONTEXT_EXCEEDED_SAID: Final = (
    "the conversation is longer than the model takes, and the session's truncation is disabled"
)


def failure_of(reason: StatusReason | None, error: str | None) -> Failure:
    """Return the error event of a failed reply.

    Args:
        reason: why it failed; None: a part of the model did.
        error: in words.
    """
    return Failure(
        code=reason or "stage_failed",
        message=error or "a stage failed",
        kind="invalid_request_error" if reason == CONTEXT_EXCEEDED else "server_error",
    )
