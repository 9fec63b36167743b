"""The function calls of one reply: from the pieces that a thinker gives to items of the conversation.

    thinker   text …   CallDelta … last   CallDelta … last   finish
    client    text …   started, arguments …, done            the reply ends as it would without them; its text may still play
    cut                          ▲ item incomplete, no `done`: nobody is asked to carry it out

A call that is done has arguments that are the JSON of an object, and is never taken back: it may be under way.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Literal, Protocol

from duplex.config import ToolSettings
from duplex.payloads import CallDelta
from duplex.session.conversation import Conversation, Item, ItemError
from duplex.session.effects import Outbox
from duplex.session.events import CallArguments
from duplex.session.lane import Reply
from duplex.session.messages import CreateCall, CreateCallOutput

Verdict = Literal["go_on", "enough", "bound"]
"""Goes on; the reply is complete without what follows; what follows is over a bound."""


class CallFloor(Protocol):
    """What the calls of a reply ask of the core."""

    def begin_call(self, reply: Reply, item: Item) -> None:
        """Enter a call's item into the conversation, and tell the client."""

    def end_call(self, reply: Reply, item: Item) -> None:
        """The call is complete: tell the client, who carries it out."""


class BadCallError(Exception):
    """The thinker has made a call that nobody can carry out; the message says what is wrong and never quotes it."""


class Calls:
    """What one reply calls.

    Args:
        reply: whose.
        outbox: takes the pieces of the arguments.
        bounds: on calls and arguments.
        new_id: gives a fresh id for a prefix (`item`, `call`).
        floor: the core.
    """

    def __init__(
        self, reply: Reply, outbox: Outbox, bounds: ToolSettings, new_id: Callable[[str], str], floor: CallFloor
    ) -> None:
        self._reply = reply
        self._outbox = outbox
        self._bounds = bounds
        self._new_id = new_id
        self._floor = floor
        self._items: list[Item] = []

    def take(self, delta: CallDelta) -> Verdict:
        """Take a piece of a call.

        Raises:
            BadCallError: it calls what was not offered, or its arguments are no JSON object.
        """
        if delta.index >= len(self._items):
            if self._items and not self._reply.toolset.parallel:
                return "enough"
            if len(self._items) >= self._bounds.calls_max:
                return "bound"
            self._begin(delta.name)
        item = self._items[min(delta.index, len(self._items) - 1)]
        text = item.text or ""
        if len(text) + len(delta.arguments) > self._bounds.arguments_chars_max:
            return "bound"
        arguments = delta.arguments or ("{}" if delta.last and not text else "")
        if arguments:
            item.text = text + arguments
            self._outbox.send(
                CallArguments(reply_id=self._reply.id, item_id=item.id, call_id=item.call_id or "", delta=arguments)
            )
        if delta.last:
            if not is_object(item.text or ""):
                raise BadCallError("the model has called a function with arguments that are no JSON object")
            item.status = "completed"
            self._floor.end_call(self._reply, item)
        return "go_on"

    def _begin(self, name: str) -> None:
        if name not in {tool.name for tool in self._reply.toolset.callable}:
            raise BadCallError("the model has called a function that is not offered to it")
        item = Item(
            id=self._new_id("item"), kind="function_call", role="assistant", modality="text", text="",
            status="in_progress", call_id=self._new_id("call"), name=name,
        )  # fmt: skip
        self._items.append(item)
        self._reply.outputs.append(item)
        self._floor.begin_call(self._reply, item)


def is_object(text: str) -> bool:
    """Return whether a text is the JSON of an object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def client_item(
    msg: CreateCall | CreateCallOutput, conversation: Conversation, bounds: ToolSettings, new_id: Callable[[str], str]
) -> Item:
    """Return the item of a client's call or result.

    Raises:
        ItemError: a bound, a call's id that is taken, or a result of no complete call of this conversation.
    """
    if isinstance(msg, CreateCall):
        if len(msg.arguments) > bounds.arguments_chars_max:
            raise ItemError(
                "string_above_max_length", "the arguments are longer than the server allows", "item.arguments"
            )
        if msg.call_id is not None and conversation.call(msg.call_id) is not None:
            raise ItemError("call_id_taken", f"there is already a call {msg.call_id}", "item.call_id")
        return item_of(msg, msg.item_id or new_id("item"), msg.call_id or new_id("call"))
    if len(msg.output) > bounds.output_chars_max:
        raise ItemError("string_above_max_length", "the output is longer than the server allows", "item.output")
    call = conversation.call(msg.call_id)
    if call is None or call.status != "completed":
        raise ItemError("invalid_tool_call_id", f"the conversation has no complete call {msg.call_id}", "item.call_id")
    return item_of(msg, msg.item_id or new_id("item"), msg.call_id)


def item_of(msg: CreateCall | CreateCallOutput, item_id: str, call_id: str) -> Item:
    """Return a client's call or result as an item, unchecked."""
    if isinstance(msg, CreateCall):
        return Item(
            id=item_id, kind="function_call", role="assistant", modality="text", text=msg.arguments or "{}",
            call_id=call_id, name=msg.name,
        )  # fmt: skip
    return Item(id=item_id, kind="function_call_output", role="tool", modality="text", text=msg.output, call_id=call_id)
