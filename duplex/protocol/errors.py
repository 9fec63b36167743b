"""What can be wrong with a client's words, and the codes that say so on the wire.

    ProtocolError
    ├── RemoteProtocolError   an event or a session object of the client is wrong; carries its wire code
    │   └── SessionRejected   the same, while a session is being opened: nothing was started
    ├── ServerBusy            no room for one more session; carries when to try again
    ├── CallNotFound          there is no live call of this id, or it is somebody else's
    ├── TooManySideChannels   the call has as many as it may
    └── ResumeRefused         the token resumes nothing: unknown, spent, somebody else's, or of the other transport

Codes that stock clients look for keep the names they know: the clients compare strings. Source: STYLE.md §8.
"""

from __future__ import annotations

from typing import Final

INVALID_JSON: Final = "invalid_json"
"""Not JSON, or JSON that no event is made of: NaN, a number out of range, half a surrogate pair."""
INVALID_UTF8: Final = "invalid_utf8"
BINARY_EVENT: Final = "binary_event"
"""A binary frame; events are text."""
DUPLICATE_KEY: Final = "duplicate_key"
NESTING_TOO_DEEP: Final = "nesting_too_deep"
EVENT_TOO_LARGE: Final = "event_too_large"
"""An event other than audio that is too long, or of thousands of brackets; the bounds are configured."""
INVALID_TYPE: Final = "invalid_type"
"""A value of the wrong JSON type."""
INVALID_VALUE: Final = "invalid_value"
"""A value of the right type that is not allowed."""
MISSING_PARAMETER: Final = "missing_required_parameter"
TOO_LONG: Final = "string_above_max_length"
UNKNOWN_EVENT_TYPE: Final = "unknown_event_type"
UNSUPPORTED: Final = "unsupported"
"""Part of the protocol, but not of this server."""
WRONG_TRANSPORT: Final = "unsupported_on_transport"
"""Part of the other transport."""
FORBIDDEN_FIELD: Final = "forbidden_field"
"""A field of a locked session that is not the client's to set."""
INVALID_AUDIO: Final = "invalid_audio"
"""Not base64, or not whole samples."""
INVALID_IMAGE: Final = "invalid_image"
"""Not base64, or not a PNG, JPEG or WebP."""
SESSION_NOT_RESUMABLE: Final = "session_not_resumable"
"""The token of a `duplex.session.resume` resumes nothing here."""
IMAGE_TOO_LARGE: Final = "image_too_large"
"""More bytes or pixels than the server takes."""

EVENT_NOT_SENT: Final = "event_not_sent"
"""An event of the server is larger than its client's data channel takes."""


class ProtocolError(Exception):
    """Base of everything below."""


class RemoteProtocolError(ProtocolError):
    """The client's event or session object cannot be taken.

    Args:
        code: one of the codes above.
        message: says what is wrong and what would be right; never quotes audio, instructions or text.
        param: dotted path of the field, e.g. `session.audio.output.speed`.
    """

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param


class SessionRejected(RemoteProtocolError):
    """The session object that came with an offer is wrong; no session was made."""


class ServerBusy(ProtocolError):
    """Every session is taken.

    Args:
        retry_after_s: whole seconds after which trying again makes sense, ≥ 1.
    """

    def __init__(self, retry_after_s: int = 5) -> None:
        super().__init__(f"every session is taken; try again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class CallNotFound(ProtocolError):
    """There is no live call of this id for who asks. Whether it is somebody else's is not told."""


class TooManySideChannels(ProtocolError):
    """The call has as many side channels as it may."""


class ResumeRefused(ProtocolError):
    """The token resumes nothing. Why is not told: who guesses tokens learns nothing of those that are there."""
