"""Every code of an `error` event, and when it is sent: the tests let no other pass, docs/protocol.md lists them.

The codes that `errors` names come from reading what the client sent, the others from what the session can do at the moment.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, WithJsonSchema
from typing_extensions import TypeAliasType

from duplex.protocol import errors

ERROR_CODES: Final[dict[str, str]] = {
    errors.INVALID_JSON: "not JSON, or JSON that no event is made of: NaN, a number out of range, half a surrogate pair",
    errors.INVALID_UTF8: "the text is not UTF-8",
    errors.BINARY_EVENT: "a binary frame: events are text",
    errors.DUPLICATE_KEY: "an object names a field twice",
    errors.NESTING_TOO_DEEP: "objects within objects without end",
    errors.EVENT_TOO_LARGE: "an event other than audio that is too long (1 MiB, unless configured), or of thousands of brackets",
    errors.INVALID_TYPE: "a value of the wrong JSON type",
    errors.INVALID_VALUE: "a value of the right type that is not allowed",
    errors.MISSING_PARAMETER: "a field is missing",
    errors.TOO_LONG: "text or audio is longer than the server takes",
    errors.UNKNOWN_EVENT_TYPE: "there is no such client event",
    errors.UNSUPPORTED: "part of the protocol, but not of this server, or not of its model",
    errors.WRONG_TRANSPORT: "part of the other transport",
    errors.FORBIDDEN_FIELD: "the client secret of this session keeps the field locked (security.md)",
    errors.INVALID_AUDIO: "audio that is not base64, is empty or ends within a sample",
    errors.INVALID_IMAGE: "not base64, not a PNG, JPEG or WebP, or broken behind its head",
    errors.SESSION_NOT_RESUMABLE: "no session can be resumed by this token on this connection",
    errors.IMAGE_TOO_LARGE: "an image of more bytes or pixels than the server takes",
    errors.EVENT_NOT_SENT: "`server_error`: an event of the server is larger than the client's data channel takes; `duplex.unsent` says which",
    "too_many_images": "so many images of the session wait to be read already",
    "too_many_audio_items": "so many items of the session wait to be transcribed already",
    "image_not_read": "`server_error`: the reader failed on an image; the item is there without its text",
    "item_not_found": "there is no item of this id: `previous_item_id`, or a reference in a response's own input",
    "item_retrieve_invalid_item_id": "there is no item of this id to retrieve",
    "item_delete_invalid_item_id": "there is no item of this id to delete",
    "item_truncate_invalid_item_id": "there is no item of this id to truncate",
    "item_create_duplicate_item_id": "there is an item of this id already",
    "call_id_taken": "there is a function call of this `call_id` already",
    "invalid_tool_call_id": "no complete call of this `call_id` is in the conversation, or before its output in a response's own input",
    "too_many_items": "a response's own input has more items than the server takes",
    "too_many_out_of_band_responses": "so many responses run beside the conversation already",
    "invalid_truncate": "not the assistant's audio, or past its end; nothing is changed",
    "conversation_already_has_active_response": "a response is in progress; it goes on",
    "response_cancel_not_active": "there is no such response to cancel",
    "input_audio_buffer_commit_empty": "nothing was said since the last commit",
    "input_audio_buffer_full": "more audio without a commit than is kept; the oldest was dropped",
    "cannot_update_voice": "the voice is fixed after the first audio",
    "cannot_update_type": "the session's type is fixed once anything was said or asked for",
    "context_length_exceeded": "the conversation is longer than the model takes, and `truncation` is `disabled`",
    "session_expired": "the session has its greatest length: no reply begins any more",
    "unsupported_in_tick_mode": "the model decides by itself when to speak",
    "stage_failed": "`server_error`: a part of the model failed; the session goes on",
    "transcription_failed": "in `…transcription.failed`: the user's words are not known",
}
"""Code → when."""


def _known(code: str) -> str:
    if code not in ERROR_CODES:
        raise ValueError("is in no catalogue: add it to duplex/protocol/error_codes.py")
    return code


ErrorCode = TypeAliasType(
    "ErrorCode",
    Annotated[str, AfterValidator(_known), WithJsonSchema({"type": "string", "enum": list(ERROR_CODES)})],
)
"""What an error is called: one of the list of error codes."""
