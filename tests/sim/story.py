"""What passes on the wire of a session, written as a table: a line per event, with the fields that matter and short names.

    > response.create                                            a client's event
    response.created                 reply1 in_progress
    response.output_text.delta …     reply1 item2 'One two.'     deltas between two other events are one line a type, joined

Ids are named in the order in which they come: `item1`, `reply1`, `call1`. Positions and sizes are not shown: they have
tests of their own.
"""

from __future__ import annotations

from typing import Any

from duplex.protocol import TransportName
from duplex.units import MonoNs
from tests.sim.world import Client, Server

_NAMES = {"item": "item", "resp": "reply", "call": "call"}
_SHOWN = ("response_id", "item_id", "output_index", "content_index", "call_id", "name")
_WORDS = ("delta", "transcript", "text", "arguments")


def rows(table: str, transport: TransportName) -> list[str]:
    """Return the lines of a table that hold on a transport: those that begin with another one's name are left out."""
    lines = [" ".join(line.split()) for line in table.strip().splitlines()]
    other = "websocket " if transport == "webrtc" else "webrtc "
    return [line.removeprefix(f"{transport} ") for line in lines if line and not line.startswith(other)]


def _reply_of(event: dict[str, Any]) -> Any:
    return event.get("response_id") or event.get("response", {}).get("id")


class Story:
    """One session, and the table of all that passed between it and its client.

    Args:
        server: simulated.
        transport: of the session.
        wire: what the client asks for at its beginning.
    """

    def __init__(self, server: Server, transport: TransportName, wire: dict[str, Any] | None = None) -> None:
        self.server = server
        self.transport = transport
        self.session = server.connect(transport, wire, opens=False)
        self._log: list[tuple[str, dict[str, Any]]] = []
        self._names: dict[str, str] = {}
        self._told = 0
        self._listen()
        self.session.actor.channel_open()

    # What happens. --------------------------------------------------------------------------------------------------

    def wait(self, ms: float) -> None:
        """Let time pass."""
        self.server.advance(ms)

    def say(self, ms: float, then_ms: float = 0) -> None:
        """Speak so long, and be silent for a while."""
        self.session.say(ms)
        self.wait(ms + then_ms)

    def send(self, kind: str, **fields: Any) -> None:
        """Send a client's event."""
        self._log.append((f"> {kind}", {}))
        self.session.event(type=kind, **fields)

    def type_text(self, text: str) -> None:
        """Create a user's item."""
        content = [{"type": "input_text", "text": text}]
        self.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})

    def newest(self, kind: str) -> dict[str, Any]:
        """Return the newest server event of a type."""
        return next(event for told, event in reversed(self._log) if told == kind)

    def leave(self) -> None:
        """Lose the connection, and what is under way."""
        self.session.client = Client(world=self.server.world)
        self.session.mute()
        self.session.actor.detach(MonoNs(0))

    def come_back(self, last_event_id: str | None) -> None:
        """Connect anew, and say what was seen last."""
        self._log.append(("> duplex.session.resume", {}))
        self._listen()
        self.session.actor.channel_open(last_event_id)

    # How it is told. ------------------------------------------------------------------------------------------------

    def table(self) -> list[str]:
        """Return a line per event since the last table."""
        told, self._told = self._log[self._told :], len(self._log)
        return self._lines(told)

    def apart(self, reply: str) -> list[str]:
        """Return a line per event of one response, as if it had been alone."""
        named = [(kind, event) for kind, event in self._log if self._name(_reply_of(event)) == reply]
        return self._lines(named)

    def _lines(self, told: list[tuple[str, dict[str, Any]]]) -> list[str]:
        lines: list[str] = []
        open_deltas: dict[str, int] = {}
        words: dict[str, str] = {}
        for kind, event in told:
            if not kind.endswith(".delta"):
                open_deltas.clear()
                lines.append(f"{kind} {self._fields(event)}".rstrip())
                continue
            text = "" if kind == "response.output_audio.delta" else event["delta"]
            key = f"{kind} {event.get('response_id')}"
            words[key] = words[key] + text if key in open_deltas else text
            line = f"{kind} … {self._fields(event | {'delta': words[key]})}"
            if key in open_deltas:
                lines[open_deltas[key]] = line
            else:
                open_deltas[key] = len(lines)
                lines.append(line)
        return lines

    def _listen(self) -> None:
        story = self

        class Ear(Client):
            def send(self, event: str) -> None:
                super().send(event)
                if story.session.client is self:
                    told = self.events[-1][1]
                    story._fields(told)  # names its ids as they come
                    story._log.append((told["type"], told))

        self.session.client = Ear(world=self.server.world)
        self.session.actor.attach(self.session.client)

    def _fields(self, event: dict[str, Any]) -> str:
        shown = [self._name(event[field]) for field in _SHOWN if event.get(field) is not None]
        if "response" in event:
            shown += self._response(event["response"])
        if "item" in event:
            shown += self._item(event["item"])
        if "previous_item_id" in event:
            shown.append(f"after {self._name(event['previous_item_id'])}")
        if "part" in event:
            shown += self._part(event["part"])
        if "error" in event:
            shown += [event["error"]["code"], str(event["error"].get("event_id"))]
        shown += [mark for mark in ("restored", "cut") if event.get("duplex", {}).get(mark)]
        shown += [repr(event[field]) for field in _WORDS if event.get(field)]
        return " ".join(shown)

    def _response(self, response: dict[str, Any]) -> list[str]:
        details = response["status_details"] or {}
        beside = [] if response["conversation_id"] is not None else ["beside"]
        reason = [str(details["reason"])] if details.get("reason") else []
        output = [f"{self._name(item['id'])}:{item['status']}" for item in response["output"]]
        return [self._name(response["id"]), *beside, response["status"], *reason, *output]

    def _item(self, item: dict[str, Any]) -> list[str]:
        what = item.get("role") or item["type"]
        parts = [word for part in item.get("content", []) for word in self._part(part)]
        return [self._name(item["id"]), what, item["status"], *parts]

    @staticmethod
    def _part(part: dict[str, Any]) -> list[str]:
        words = part.get("text") or part.get("transcript")
        return [part["type"], repr(words)] if words else [part["type"]]

    def _name(self, value: Any) -> str:
        if not isinstance(value, str) or value.partition("_")[0] not in _NAMES:
            return str(value)
        if value not in self._names:
            prefix = _NAMES[value.partition("_")[0]]
            taken = sum(name.rstrip("0123456789") == prefix for name in self._names.values())
            self._names[value] = f"{prefix}{taken + 1}"
        return self._names[value]
