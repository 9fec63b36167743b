"""What all models of the server's events are made from: objects of exactly these fields, and an event with its id.

The models say what is sent; they do not send it. Audio deltas are hot, so `encode` and `wire_objects` build plain
dictionaries, and the tests hold every event that they build against the models. The page `docs/protocol.md` and the
types of the web SDK are made from them.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field

from duplex.protocol.decode import TransportName

LEFT_OUT: Final[Any] = None
"""Default of a field that is not always there. It is never null on the wire, unless its type says so."""

Milliseconds = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]
Index = Annotated[int, Field(ge=0)]


class ShownModel(BaseModel):
    """Exactly these fields, of exactly these types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ShownEvent(ShownModel):
    """An event of the server."""

    only_on: ClassVar[TransportName | None] = None
    """The one transport that has it; None: both."""

    event_id: Annotated[str, Field(pattern=r"^event_[0-9]{12}_.+$")]
    """`event_`, a number of twelve digits that grows by one with each event, `_`, the session's id."""
