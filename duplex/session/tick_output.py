"""Output in tick mode: a model in lock-step with its input decides itself when to speak; its ticks become replies.

    ticks    · · ▇ ▇ ▇ ▇ ▇ · · · ▇ ▇ ·          ▇ speaks
    replies      └── reply ──┘   └─┘            a run of speaking ticks, ended by `_SILENT_TICKS` silent ones

It is never held back. After a cut it is muted until it falls silent by itself, since its context cannot be called back.
"""

from __future__ import annotations

from collections.abc import Callable

from duplex.payloads import Audio, TickOutput
from duplex.session.effects import Enqueue, Outbox
from duplex.session.lane import Lane, Reply
from duplex.session.speech import content_length, say_text
from duplex.session.turn_output import Floor
from duplex.units import MonoNs

_SILENT_TICKS = 2
"""Silent ticks that end a reply; one alone may be a breath."""


class TickOutputPolicy:
    """Segments a model's ticks into replies.

    Args:
        new_reply: makes, announces and returns a reply.
    """

    def __init__(self, lane: Lane, outbox: Outbox, new_reply: Callable[[MonoNs], Reply], floor: Floor) -> None:
        self._lane = lane
        self._outbox = outbox
        self._new_reply = new_reply
        self._floor = floor
        self._reply: Reply | None = None
        self._source = 0
        self._silent = 0
        self._muted = False

    def take(self, tick: TickOutput, now: MonoNs) -> None:
        """Take one tick's output."""
        if not tick.speak:
            self._silent += 1
            if self._silent >= _SILENT_TICKS:
                self._muted = False
                self._end()
            return
        self._silent = 0
        if self._muted:
            return
        if self._reply is None:
            self._reply = self._new_reply(now)
            self._source = 0
            self._floor.begin_output(self._reply)
        self._say(self._reply, tick, now)

    def fail(self, reason: str) -> None:
        """The model's stage failed: what it was saying ends so."""
        reply, self._reply = self._reply, None
        if reply is not None and reply.item is not None:
            self._outbox.add(Enqueue(address=reply.address, item_id=reply.item.id, audio=None, last=True))
            self._floor.finish(reply, "failed", "stage_failed", reason)

    def drop(self) -> None:
        """The reply was cut."""
        self._muted = self._reply is not None
        self._reply = None

    def _say(self, reply: Reply, tick: TickOutput, now: MonoNs) -> None:
        assert reply.item is not None and reply.item.spoken is not None
        spoken = reply.item.spoken
        if tick.text:
            spoken.text += tick.text
            say_text(reply, tick.text, self._lane, self._outbox)
        if tick.pcm is None:
            return
        self._lane.begin_draining(now)
        self._source += len(tick.pcm)
        reply.generated = content_length(self._source, tick.rate)
        reply.mark("vocoded", now)
        spoken.audio = reply.generated
        if tick.text:
            spoken.word(len(spoken.text), reply.generated)
        audio = Audio(clause=0, pcm=tick.pcm, rate=tick.rate, last=False)
        self._outbox.add(Enqueue(address=reply.address, item_id=reply.item.id, audio=audio, last=False))

    def _end(self) -> None:
        reply, self._reply = self._reply, None
        if reply is None:
            return
        assert reply.item is not None and reply.item.spoken is not None
        reply.item.spoken.complete = True
        self._outbox.add(Enqueue(address=reply.address, item_id=reply.item.id, audio=None, last=True))
        self._floor.finish(reply, "completed", None, None)
