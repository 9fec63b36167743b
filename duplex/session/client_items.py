"""What a client does with the items of its conversation: creates them, sees them again, deletes them, truncates them."""

from __future__ import annotations

from typing import Literal

from duplex.session.clips import Clips
from duplex.session.conversation import Item, ItemError
from duplex.session.ear import Ear
from duplex.session.events import ItemAdded, ItemDeleted, ItemRetrieved, ItemTruncated
from duplex.session.messages import (
    CreateCall,
    CreateCallOutput,
    CreateItem,
    DeleteItem,
    Inbound,
    RetrieveItem,
    TruncateItem,
)
from duplex.session.pictures import Pictures, views_of
from duplex.session.shared import Shared
from duplex.session.tools import client_item
from duplex.units import MonoNs


class ClientItems:
    """Takes a client's events about items.

    Args:
        shared: the session.
        ear: has the item that the user is speaking.
        pictures: of items, to be read.
        clips: of sound in items, to be transcribed.
    """

    def __init__(self, shared: Shared, ear: Ear, pictures: Pictures, clips: Clips) -> None:
        self._shared = shared
        self._conversation = shared.conversation
        self._outbox = shared.outbox
        self._ear = ear
        self._pictures = pictures
        self._clips = clips

    def take(self, msg: Inbound, now: MonoNs) -> bool:
        """Take an event; return False if it is about something else.

        Raises:
            ItemError: it cannot be done; nothing is changed.
        """
        shared = self._shared
        match msg:
            case CreateItem():
                self._create(msg, now)
            case CreateCall() | CreateCallOutput():
                item = client_item(msg, self._conversation, shared.settings.tools, shared.new_id)
                self._add(item, msg.previous_item_id)
            case RetrieveItem(item_id=item_id):
                item = self._conversation.get(item_id, "item_retrieve_invalid_item_id")
                self._outbox.send(ItemRetrieved(item=item.view()))
            case DeleteItem(item_id=item_id):
                self._conversation.delete(item_id)
                self._pictures.forget(item_id, now)
                self._clips.forget(item_id)
                self._outbox.send(ItemDeleted(item_id=item_id))
            case TruncateItem():
                self._conversation.truncate(msg.item_id, msg.content_index, msg.audio_end)
                self._outbox.send(ItemTruncated(item_id=msg.item_id, audio_end=msg.audio_end))
            case _:
                return False
        return True

    def _create(self, msg: CreateItem, now: MonoNs) -> None:
        if len(msg.text) > self._shared.settings.conversation.text_chars_max:
            raise ItemError(
                "string_above_max_length", "the item's text is longer than the server allows", "item.content"
            )
        self._pictures.check(msg.images)
        if msg.audio is not None:
            self._clips.check()
        role: Literal["user", "assistant", "system"] = msg.role  # type: ignore[assignment]
        item_id = msg.item_id or self._shared.new_id("item")
        item = Item(id=item_id, role=role, modality="text", text=msg.text, pictures=views_of(msg.images))
        if msg.audio is not None:
            item.modality, item.text = "audio", None
        self._add(item, msg.previous_item_id)
        self._pictures.show(item, msg.images, msg.event_id, now)
        if msg.audio is not None:
            self._clips.hear(item, msg.audio, now)

    def _add(self, item: Item, after: str | None) -> None:
        if self._ear.is_open(item.id):
            raise ItemError("item_create_duplicate_item_id", f"the user is speaking item {item.id}", "item.id")
        previous = self._conversation.add(item, after)
        self._outbox.send(ItemAdded(item=item.view(), previous_item_id=previous))
