"""The pictures in the items of a session: each is read once, and what was read stays with its item.

    item.create ──► the item, with its text ──► its pictures wait for the reader, one at a time, in order
    response.create, or a pause in speech ────► the answer waits until all are read, `image_wait_ms_max` at most

Unlike a camera's frame a picture in an item belongs to the history: one that is read too late for an answer is there for the
next. One that cannot be read costs the item nothing else; the client is told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from duplex.config import ConversationSettings
from duplex.payloads import (
    INPUT_LANE,
    Address,
    EncodedImage,
    Job,
    JobId,
    Pace,
    Payload,
    Picture,
    Reading,
    Role,
    StageError,
)
from duplex.session.camera import legible_in
from duplex.session.conversation import Conversation, Item, ItemError
from duplex.session.effects import Drop, Outbox, Submit
from duplex.session.events import Failure
from duplex.session.picture_view import PictureView
from duplex.session.traits import Traits
from duplex.units import MonoNs, ns_from_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unread:
    item: Item
    place: int
    """Among the item's pictures."""
    image: EncodedImage
    event_id: str | None
    """Of the client's event that brought it."""


class Pictures:
    """Has a conversation's pictures read.

    Args:
        session: id, for addresses.
        settings: bounds.
        traits: without a reader, and in tick mode, none is taken.
        conversation: keeps the items.
    """

    def __init__(
        self, session: str, settings: ConversationSettings, traits: Traits, conversation: Conversation, outbox: Outbox
    ) -> None:
        self._settings = settings
        self._address = Address(session=session, lane=INPUT_LANE, epoch=0, tenant=traits.tenant)
        self._reads = traits.reads and not traits.tick_mode
        self._conversation = conversation
        self._outbox = outbox
        self._unread: deque[_Unread] = deque()
        """The first one is being read; `images_unread_max` at most, more are refused."""
        self._job: JobId | None = None
        self._wait_until = MonoNs(0)

    def check(self, images: Sequence[EncodedImage]) -> None:
        """Refuse pictures that cannot be taken.

        Raises:
            ItemError: nobody could read them, or too many wait; nothing is changed.
        """
        if images and not self._reads:
            raise ItemError("unsupported", "this model reads no images", "item.content")
        most = self._settings.images_unread_max
        if len(self._unread) + len(images) > most:
            raise ItemError(
                "too_many_images", f"at most {most} images wait to be read; send the next later", "item.content"
            )

    def show(self, item: Item, images: Sequence[EncodedImage], event_id: str | None, now: MonoNs) -> None:
        """Have the pictures of a new item read.

        Args:
            item: it has its pictures' views already, as `views_of` gives them.
            images: they passed `check`.
        """
        for place, image in enumerate(images):
            self._unread.append(_Unread(item=item, place=place, image=image, event_id=event_id))
        self._read_next(now)

    def wait_for_answer(self, now: MonoNs) -> None:
        """An answer may begin soon, and waits for what is being read."""
        self._wait_until = MonoNs(now + ns_from_ms(self._settings.image_wait_ms_max))

    def awaited_until(self, now: MonoNs) -> MonoNs | None:
        """Return how long an answer waits for what is being read; None: it does not."""
        return self._wait_until if self._unread and now < self._wait_until else None

    def take(self, job: JobId, payload: Payload | StageError, now: MonoNs) -> bool:
        """Take a reading; return False if the job is not ours, or was given up."""
        if job != self._job:
            return False
        self._job = None
        unread = self._unread.popleft()
        view = unread.item.pictures[unread.place]
        if isinstance(payload, Reading):
            text = legible_in(payload, self._settings.image_text_chars_max)
            view = replace(view, state="nothing" if text is None else "read", text=text)
        else:
            view = replace(view, state="failed")
            self._tell_failed(unread, payload)
        unread.item.pictures[unread.place] = view
        self._conversation.grown(unread.item)
        self._count(view.state)
        self._read_next(now)
        return True

    def forget(self, item_id: str, now: MonoNs) -> None:
        """The item was deleted: its pictures need not be read any more."""
        if self._unread and self._unread[0].item.id == item_id:
            self._drop_job()
        kept = [unread for unread in self._unread if unread.item.id != item_id]
        for _ in range(len(self._unread) - len(kept)):
            self._count("dropped")
        self._unread = deque(kept)
        self._read_next(now)

    def close(self) -> None:
        """The session ends."""
        self._drop_job()
        for _ in self._unread:
            self._count("dropped")
        self._unread.clear()

    def _read_next(self, now: MonoNs) -> None:
        if self._job is not None or not self._unread:
            return
        self._job = self._outbox.next_job()
        payload = Picture(image=self._unread[0].image, at=now)
        job = Job(id=self._job, stage=Role.READ, address=self._address, payload=payload, pace=Pace(since=now))
        self._outbox.add(Submit(job=job))

    def _drop_job(self) -> None:
        if self._job is not None:
            self._outbox.add(Drop(role=Role.READ, job=self._job))
            self._job = None

    def _tell_failed(self, unread: _Unread, payload: Payload | StageError) -> None:
        broken = isinstance(payload, StageError) and payload.kind == "invalid"
        reason = payload.reason if isinstance(payload, StageError) else "the reader gave no text"
        self._outbox.send(
            Failure(
                code="invalid_image" if broken else "image_not_read",
                message=f"image {unread.place + 1} of item {unread.item.id} was not read: {reason}",
                param="item.content",
                event_id=unread.event_id,
                kind="invalid_request_error" if broken else "server_error",
            )
        )

    def _count(self, outcome: str) -> None:
        self._outbox.observe("duplex_image_readings_total", 1, outcome=outcome)


def views_of(images: Sequence[EncodedImage]) -> list[PictureView]:
    """Return what is shown of pictures that nobody has read yet."""
    return [
        PictureView(format=image.format, width=image.width, height=image.height, size_bytes=image.size_bytes)
        for image in images
    ]
