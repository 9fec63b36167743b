"""The conversation: what was said, and of the model's part only what was heard, to the word."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from duplex.payloads import Call, Message
from duplex.session.events import ItemKind, ItemView
from duplex.session.history import History
from duplex.session.picture_view import PictureView, notes_of
from duplex.units import Samples, ms_from_samples, samples_from_ms

Role = Literal["user", "assistant", "system", "tool"]


@dataclass(slots=True)
class SpokenText:
    """A reply's text beside its audio: where in the audio each word ends."""

    text: str = ""
    """Text whose audio has been queued for the listener."""
    audio: Samples = Samples(0)
    """Content position of the audio's end so far."""
    complete: bool = False
    """Nothing will be added."""
    _text_ends: list[int] = field(default_factory=list)
    _word_ends: list[int] = field(default_factory=list)

    def word(self, text_end: int, end: Samples) -> None:
        """Note a word: characters of the whole text up to its end, content position of its end; both ascending."""
        self._text_ends.append(text_end)
        self._word_ends.append(end)

    def heard(self, position: Samples) -> str:
        """Return the text whose words ended at or before a content position."""
        if self.complete and position >= self.audio:
            return self.text
        words = bisect_right(self._word_ends, position)
        return self.text[: self._text_ends[words - 1]] if words else ""

    def word_start(self, position: Samples) -> Samples:
        """Return the end of the last word that ended at or before a position: where to go on after a hold."""
        words = bisect_right(self._word_ends, position)
        return Samples(self._word_ends[words - 1]) if words else Samples(0)


@dataclass(slots=True)
class Item:
    """One entry of the conversation."""

    id: str
    role: Role
    modality: Literal["audio", "text"]
    text: str | None
    """The user's words, or a text item's; None while a transcript is awaited. An assistant's audio is in `spoken`. Of a
    function call its arguments, of its output what it gave."""
    status: Literal["in_progress", "completed", "incomplete"] = "completed"
    spoken: SpokenText | None = None
    heard: Samples | None = None
    """Content position up to which it was heard; None: all of it (or it still plays)."""
    cut: bool = False
    """Of the assistant's: it was stopped before all of it was heard."""
    kind: ItemKind = "message"
    call_id: str | None = None
    """Of a function call, or the one that an output answers."""
    name: str | None = None
    """Of the function that is called."""
    pictures: list[PictureView] = field(default_factory=list)
    """Of a user's text item; each view gives way to the next as it is read."""

    def heard_text(self) -> str:
        """Return what belongs into the history."""
        if self.pictures:
            return "\n".join([self.text, *notes_of(self.pictures)] if self.text else notes_of(self.pictures))
        if self.spoken is None:
            return self.text or ""
        return self.spoken.text if self.heard is None else self.spoken.heard(self.heard)

    def view(self) -> ItemView:
        """Return a snapshot for the client."""
        text = self.heard_text() if self.spoken is not None else self.text
        return ItemView(
            id=self.id, role=self.role, modality=self.modality, text=text, status=self.status, pictures=tuple(self.pictures),
            kind=self.kind, call_id=self.call_id, name=self.name,
        )  # fmt: skip


class ItemError(Exception):
    """An item cannot be used as asked; carries the wire's code, the message and the parameter."""

    def __init__(self, code: str, message: str, param: str) -> None:
        super().__init__(message)
        self.code = code
        self.param = param


class Conversation:
    """The ordered items of one session.

    Args:
        items_max: bound; overflow rule: `drop_oldest`.
        chars_max: bound on the text that items come with; overflow rule: `drop_oldest`, but for the newest.
    """

    def __init__(self, items_max: int, chars_max: int = 1_000_000) -> None:
        self.begun = False
        """There was an item, whatever has become of it."""
        self.results = 0
        """What function calls gave, so far: their number, whatever has become of it."""
        self._items: list[Item] = []
        self._items_max = items_max
        self._chars_max = chars_max
        self._chars_of: dict[str, int] = {}
        """By item: the characters it came with."""
        self._chars = 0
        self._fresh_audio = 0
        """Of the user's turns that no reply was made from yet, in samples."""

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, item: object) -> bool:
        """Return whether this very item is there: another may have its id by now."""
        return any(kept is item for kept in self._items)

    def get(self, item_id: str, missing: str = "item_not_found") -> Item:
        """Return an item.

        Args:
            missing: the error's code: stock clients know one for each thing that can be asked of an item.
        Raises:
            ItemError: there is none of this id.
        """
        for item in reversed(self._items):
            if item.id == item_id:
                return item
        raise ItemError(missing, f"there is no item {item_id}", "item_id")

    def call(self, call_id: str) -> Item | None:
        """Return the function call of this id, whatever has become of it."""
        calls = (item for item in self._items if item.kind == "function_call" and item.call_id == call_id)
        return next(calls, None)

    def add(self, item: Item, after: str | None = None) -> str | None:
        """Insert an item and return the id of the one before it.

        Args:
            item: the new item.
            after: id of the item it follows; None appends, `root` puts first.
        Raises:
            ItemError: the id is taken, or `after` is not there; nothing is changed.
        """
        if item.id in self._chars_of:
            raise ItemError("item_create_duplicate_item_id", f"there is already an item {item.id}", "item.id")
        if after is None:
            index = len(self._items)
        elif after == "root":
            index = 0
        else:
            try:
                index = self._items.index(self.get(after)) + 1
            except ItemError as error:
                raise ItemError(error.code, str(error), "previous_item_id") from error
        previous = self._items[index - 1].id if index else None
        self.begun = True
        self.results += item.kind == "function_call_output"
        self._items.insert(index, item)
        self._chars_of[item.id] = len(item.text or "")
        self._chars += self._chars_of[item.id]
        self._forget_oldest()
        return previous

    def grown(self, item: Item) -> None:
        """Count what was read in the pictures of an item since it came; one that is here no more does not count."""
        if item not in self:
            return
        chars = len(item.text or "") + sum(len(view.text or "") for view in item.pictures)
        self._chars += chars - self._chars_of[item.id]
        self._chars_of[item.id] = chars
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        while len(self._items) > self._items_max or (self._chars > self._chars_max and len(self._items) > 1):
            self._remove(0)

    def delete(self, item_id: str) -> None:
        """Remove an item.

        Raises:
            ItemError: there is none of this id.
        """
        self._remove(self._items.index(self.get(item_id, "item_delete_invalid_item_id")))

    def _remove(self, index: int) -> None:
        self._chars -= self._chars_of.pop(self._items.pop(index).id)

    def truncate(self, item_id: str, content_index: int, audio_end: Samples) -> None:
        """Keep of an assistant's audio only what was heard before `audio_end`.

        Clients tell whole milliseconds, and some round up: openai-agents means by 1370 all of 1369.3. So the millisecond in
        which the audio ends is not past its end.

        Raises:
            ItemError: no such item, not the assistant's audio, or past the end of its audio; nothing is changed.
        """
        item = self.get(item_id, "item_truncate_invalid_item_id")
        if item.role != "assistant" or item.spoken is None:
            raise ItemError("invalid_truncate", "only the assistant's audio can be truncated", "item_id")
        if content_index != 0:
            raise ItemError("invalid_truncate", f"item {item_id} has no audio at this index", "content_index")
        if not item.spoken.audio or audio_end - item.spoken.audio >= samples_from_ms(1):
            have = ms_from_samples(item.spoken.audio)
            raise ItemError(
                "invalid_truncate", f"audio_end_ms is past the end of the audio ({have} ms)", "audio_end_ms"
            )
        item.heard = min(audio_end, item.spoken.audio)
        item.cut = item.cut or item.heard < item.spoken.audio

    def listened(self, length: Samples) -> None:
        """So much of the user's speech was listened to, in a turn that has its words."""
        self._fresh_audio += length

    def take_fresh_audio(self) -> Samples:
        """Return the length of the user's turns since this was asked last: a reply is made from them."""
        fresh, self._fresh_audio = self._fresh_audio, 0
        return Samples(fresh)

    def awaits_transcript(self) -> bool:
        """Return whether a committed turn of the user has no words yet."""
        return any(item.text is None and item.role == "user" for item in self._items)

    def awaits_result(self) -> bool:
        """Return whether the client has still to tell what a function call gave that was made since the user's last words."""
        given: set[str | None] = set()
        for item in reversed(self._items):
            if item.role == "user" and item.text:
                return False
            if item.kind == "function_call_output":
                given.add(item.call_id)
            elif item.kind == "function_call" and item.status == "completed" and item.call_id not in given:
                return True
        return False

    def items(self, said: str | None = None) -> list[Item]:
        """Return the items in order.

        Args:
            said: words of a turn that is not committed yet: as the conversation will be once it is.
        """
        if said is None:
            return list(self._items)
        return [*self._items, Item(id="", role="user", modality="audio", text=said)][-self._items_max :]


def messages_of(items: Iterable[Item], instructions: str) -> tuple[Message, ...]:
    """Return items as heard; turns of one role that follow each other become one message.

    A call that was cut off is left out.

    Args:
        instructions: stand before all of it.
    """
    history = History(instructions)
    for item in items:
        if item.kind == "message":
            if text := item.heard_text().strip():
                history.said(item.role, text)
        elif item.kind == "function_call_output":
            history.gave(item.call_id or "", item.text or "")
        elif item.status == "completed":
            history.called(Call(id=item.call_id or "", name=item.name or "", arguments=item.text or ""))
    return history.messages()
