"""The input of a response that is not made from the conversation: items of its own, and references to the conversation's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from duplex.config import ConversationSettings
from duplex.session.conversation import Conversation, Item, ItemError, Role
from duplex.session.messages import CreateItem, ItemReference


def items_of(
    asked: Sequence[CreateItem | ItemReference], conversation: Conversation, settings: ConversationSettings
) -> tuple[Item, ...]:
    """Return the items that a response asks to be made from, in order.

    Args:
        asked: as the client sent them. What a reference means is fixed here: an item that is deleted later stays.
        conversation: holds what is referred to.
        settings: bounds.
    Raises:
        ItemError: there is no such item, or more than one response takes.
    """
    if len(asked) > settings.input_items_max:
        message = f"the input of one response takes {settings.input_items_max} items"
        raise ItemError("too_many_items", message, "response.input")
    items: list[Item] = []
    chars = 0
    for n, each in enumerate(asked):
        item = _item(each, conversation, f"response.input.{n}.id")
        items.append(item)
        chars += len(item.heard_text())
    if chars > settings.chars_max:
        message = f"the input of one response takes {settings.chars_max} characters"
        raise ItemError("string_above_max_length", message, "response.input")
    return tuple(items)


def _item(asked: CreateItem | ItemReference, conversation: Conversation, param: str) -> Item:
    if isinstance(asked, CreateItem):
        return Item(id=asked.item_id or "", role=cast(Role, asked.role), modality="text", text=asked.text)
    try:
        return conversation.get(asked.item_id)
    except ItemError as error:
        raise ItemError(error.code, str(error), param) from error
