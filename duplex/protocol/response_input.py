"""The `input` of a response: items of its own and references, read as items are read anywhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from duplex.protocol import client_events as wire
from duplex.protocol import errors
from duplex.protocol.errors import RemoteProtocolError
from duplex.session.messages import CreateItem, ItemReference, NewItem

_REFERENCE = "item_reference"


def read_input(
    items: Sequence[wire.Item], read_item: Callable[[wire.ItemCreate], NewItem]
) -> tuple[NewItem | ItemReference, ...]:
    """Read the input of a response.

    Args:
        items: as they came.
        read_item: reads an event that creates an item.
    Raises:
        RemoteProtocolError: names the first item that cannot be taken.
    """
    return tuple(_read(item, f"response.input.{n}", read_item) for n, item in enumerate(items))


def _read(item: wire.Item, param: str, read_item: Callable[[wire.ItemCreate], NewItem]) -> NewItem | ItemReference:
    if item.type == _REFERENCE:
        if item.id is None:
            raise RemoteProtocolError(
                errors.MISSING_PARAMETER, f"Missing required parameter: '{param}.id'.", f"{param}.id"
            )
        return ItemReference(item_id=item.id)
    try:
        created = read_item(wire.ItemCreate(type="conversation.item.create", item=item))
    except RemoteProtocolError as error:
        place = (error.param or "item").removeprefix("item")
        message = error.message.replace(f"'{error.param}'", f"'{param}{place}'")
        raise RemoteProtocolError(error.code, message, f"{param}{place}") from None
    if isinstance(created, CreateItem) and created.audio is not None:
        raise RemoteProtocolError(
            errors.UNSUPPORTED, "Audio is heard in an item of the conversation: create one, and refer to it.", param
        )
    if isinstance(created, CreateItem) and created.images:
        raise RemoteProtocolError(
            errors.UNSUPPORTED, "An image is read in an item of the conversation: create one, and refer to it.", param
        )
    return created
