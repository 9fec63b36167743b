"""Every message that a client may send, as it stands on the wire. What they mean is in `wire`.

    {"label": "rtvi-ai", "type": …, "id": …, "data": {…}}       RTVI
    {"type": "signalling", "message": {…}}                      the transport's: which tracks are on
    ping: 1732970000000                                         the transport's, every second

Fields that are not named here are ignored. Source: `@pipecat-ai/client-js` 1.13.1, `@pipecat-ai/small-webrtc-transport`
1.10.8, pipecat-ai 1.14.0.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from duplex.protocol.client_events import EVENT_ID_CHARS_MAX
from duplex.protocol.wire_session import WireModel

LABEL = "rtvi-ai"
SIGNALLING = "signalling"
PING = "ping"
_Name = Annotated[str, Field(max_length=128)]


class Message(WireModel):
    """What all have in common."""

    label: Literal["rtvi-ai"]
    type: _Name
    id: Annotated[str, Field(max_length=EVENT_ID_CHARS_MAX)] | None = None
    data: dict[str, Any] | None = None


class ClientReadyData(WireModel):
    version: _Name | None = None


class SendTextOptions(WireModel):
    run_immediately: bool | None = None
    """Cut what is said and answer at once; None: yes."""
    audio_response: bool | None = None
    """The answer is spoken; None: as the session has it."""


class SendTextData(WireModel):
    content: Annotated[str, Field(min_length=1)]
    options: SendTextOptions | None = None


class AppendToContextData(WireModel):
    role: Literal["user", "assistant", "system"]
    content: Annotated[str, Field(min_length=1)]
    run_immediately: bool | None = None
    """None: no."""


class FunctionCallResultData(WireModel):
    tool_call_id: Annotated[str, Field(min_length=1, max_length=128)]
    result: Any


class ClientMessageData(WireModel):
    t: _Name
    d: Any = None
