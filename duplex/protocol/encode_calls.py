"""The function calls of one reply on the wire.

    response.output_item.added, conversation.item.added
      response.function_call_arguments.delta …
    response.function_call_arguments.done                 not of a call that was cut: clients carry out what has it
    response.output_item.done, conversation.item.done     `status` tells the one from the other

Source: protocol.md, "Lifecycles"; `openai.types.realtime` (openai 3.57.0).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from duplex.protocol import wire_objects
from duplex.session.events import CallArguments, CallStarted, ItemView

_Event = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenCall:
    output_index: int
    previous_item_id: str | None
    deleted: bool = False


class OpenCalls:
    """What has been opened on the wire of a reply's calls, and has to be closed.

    Args:
        in_conversation: the calls enter it, so it is told of them.
    """

    def __init__(self, *, in_conversation: bool) -> None:
        self._in_conversation = in_conversation
        self._open: dict[str, _OpenCall] = {}

    def copy(self) -> OpenCalls:
        """Return what goes on by itself from here on."""
        other = OpenCalls(in_conversation=self._in_conversation)
        other._open = dict(self._open)
        return other

    def start(self, event: CallStarted, output_index: int) -> list[_Event]:
        """Open a call.

        Args:
            output_index: its place among the reply's items.
        """
        self._open[event.item.id] = _OpenCall(output_index=output_index, previous_item_id=event.previous_item_id)
        item = wire_objects.empty_item(event.item)
        place = {"response_id": event.reply_id, "output_index": output_index}
        return [
            {"type": "response.output_item.added", **place, "item": item},
            *self._entered("conversation.item.added", event.previous_item_id, item),
        ]

    def delta(self, event: CallArguments) -> list[_Event]:
        """Go on with a call's arguments."""
        call = self._open[event.item_id]
        return [
            {
                "type": "response.function_call_arguments.delta", "response_id": event.reply_id,
                "item_id": event.item_id, "output_index": call.output_index, "call_id": event.call_id,
                "delta": event.delta,
            }
        ]  # fmt: skip

    def delete(self, item_id: str) -> None:
        """The client has deleted an item; if it is an open call, the conversation's side of it is told of no more."""
        if item_id in self._open:
            self._open[item_id] = replace(self._open[item_id], deleted=True)

    def finish(self, reply_id: str, view: ItemView) -> list[_Event]:
        """Close a call, complete or not; one that is closed gives nothing."""
        call = self._open.pop(view.id, None)
        if call is None:
            return []
        item = wire_objects.item(view)
        place = {"response_id": reply_id, "output_index": call.output_index}
        closed: list[_Event] = [
            {"type": "response.output_item.done", **place, "item": item},
            *([] if call.deleted else self._entered("conversation.item.done", call.previous_item_id, item)),
        ]
        if view.status != "completed":
            return closed
        done = {
            "type": "response.function_call_arguments.done", "response_id": reply_id, "item_id": view.id,
            "output_index": call.output_index, "call_id": view.call_id, "name": view.name, "arguments": view.text or "",
        }  # fmt: skip
        return [done, *closed]

    def _entered(self, kind: str, previous_item_id: str | None, item: _Event) -> list[_Event]:
        """Return what tells of an item in the conversation."""
        return [{"type": kind, "previous_item_id": previous_item_id, "item": item}] if self._in_conversation else []
