"""What a client may rely on in the order of all that it is told, checked event by event: docs/protocol.md, "Rules"."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from duplex.protocol import sequence_of
from duplex.protocol.server_events import SERVER_EVENT

_DELTAS = {
    "response.output_text.delta": "text", "response.output_audio_transcript.delta": "transcript",
    "response.function_call_arguments.delta": "arguments",
}  # fmt: skip


@dataclass
class _Reply:
    """A response that was created and is not done."""

    beside: bool
    items: dict[str, str] = field(default_factory=dict)
    """Its items in their order, and their words so far."""
    open: set[str] = field(default_factory=set)
    parts: set[str] = field(default_factory=set)
    """Items with an open content part."""


class Audit:
    """A client's own account of its session.

    Args:
        session_id: in every event's id.
    """

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self.items: list[str] = []
        """Of the conversation, in order."""
        self.ids: list[str] = []
        """Of items, responses and calls that were ever seen."""
        self.errors: Counter[str | None] = Counter()
        """By the client event that they name."""
        self.last_event_id: str | None = None
        self._number = 0
        self._gaps = False
        self._replies: dict[str, _Reply] = {}
        self._ended: set[str] = set()
        self._previous: dict[str, str | None] = {}
        """Of each item that was added and is not done."""
        self._committed: dict[str, str | None] = {}
        self._transcribed: set[str] = set()
        self._speaking: str | None = None
        self._playing: set[str] = set()

    @property
    def open(self) -> list[str]:
        """Responses that are not done."""
        return list(self._replies)

    def come_back(self, told_all: bool) -> None:
        """The client is told what it missed, without stale audio; or, if it does not say what it saw, where things stand."""
        self._gaps = True
        self._playing.clear()
        if not told_all:
            self.items, self._replies, self._previous, self._committed = [], {}, {}, {}
            self._speaking = None

    def take(self, event: dict[str, Any]) -> None:
        """Check one event against all before it."""
        SERVER_EVENT.validate_json(json.dumps(event, ensure_ascii=False).encode(errors="replace"))
        number = sequence_of(event["event_id"], self._session_id)
        assert number is not None, event
        assert number > self._number if self._gaps else number == self._number + 1, (number, self._number)
        self._number, self.last_event_id = number, event["event_id"]
        kind: str = event["type"]
        if kind == "error":
            self.errors[event["error"]["event_id"]] += 1
        elif kind == "duplex.session.resumed":
            self._gaps = False
        elif kind.startswith("conversation.item."):
            self._item(kind, event)
        elif kind.startswith("input_audio_buffer."):
            self._input(kind, event)
        elif kind.startswith("output_audio_buffer."):
            self._playout(kind, event["response_id"])
        elif kind.startswith("response."):
            self._response(kind, event)

    def finish(self) -> None:
        """Check that all that was begun has its end."""
        assert not self._replies and not self._previous and not self._committed, vars(self)

    # Items. ---------------------------------------------------------------------------------------------------------

    def _item(self, kind: str, event: dict[str, Any]) -> None:
        match kind.removeprefix("conversation.item."):
            case "added":
                item, previous = event["item"]["id"], event["previous_item_id"]
                assert item not in self.items and item not in self._previous, event
                assert previous is None or previous in self.items, (event, self.items)
                assert self._committed.pop(item, previous) == previous, event
                self.items.insert(0 if previous is None else self.items.index(previous) + 1, item)
                self._previous[item] = previous
                self.ids += [item, *filter(None, [event["item"].get("call_id")])]
            case "done":
                assert self._previous.pop(event["item"]["id"]) == event["previous_item_id"], event
                assert event["item"]["status"] != "in_progress", event
            case "deleted":
                self.items.remove(event["item_id"])
            case "retrieved":
                assert event["item"]["id"] in self.items, event
            case "input_audio_transcription.delta":
                assert event["item_id"] not in self._transcribed, event
            case "input_audio_transcription.completed" | "input_audio_transcription.failed":
                assert event["item_id"] not in self._transcribed and event["item_id"] in self.ids, event
                self._transcribed.add(event["item_id"])

    def _input(self, kind: str, event: dict[str, Any]) -> None:
        match kind.removeprefix("input_audio_buffer."):
            case "speech_started":
                assert self._speaking is None, event
                self._speaking = event["item_id"]
            case "speech_stopped":
                assert self._speaking == event["item_id"], event
                self._speaking = None
            case "committed":
                assert event["item_id"] not in self.items, event
                self._committed[event["item_id"]] = event["previous_item_id"]

    # Responses. -----------------------------------------------------------------------------------------------------

    def _playout(self, kind: str, reply: str) -> None:
        assert reply in self._replies or reply in self._ended, (kind, reply)
        if kind.endswith("started"):
            assert reply not in self._playing
            self._playing.add(reply)
        else:
            self._playing.remove(reply)

    def _response(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "response.created":
            self._created(event["response"])
            return
        if kind == "response.done":
            self._done(event["response"])
            return
        reply = self._replies[event["response_id"]]
        item: str = event["item"]["id"] if "item" in event else event["item_id"]
        if kind == "response.output_item.added":
            assert item not in reply.items, event
            assert event["output_index"] == len(reply.items), event
            reply.items[item] = ""
            reply.open.add(item)
            self.ids.append(item)
            return
        assert item in reply.open, event
        assert event["output_index"] == list(reply.items).index(item), event
        if kind == "response.output_item.done":
            assert item not in reply.parts, event
            assert event["item"]["status"] != "in_progress", event
            reply.open.remove(item)
        elif kind == "response.content_part.added":
            reply.parts.add(item)
        elif kind == "response.content_part.done":
            assert event["part"].get("text", event["part"].get("transcript")) == reply.items[item], event
            reply.parts.remove(item)
        else:
            self._words(kind, event, reply, item)

    @staticmethod
    def _words(kind: str, event: dict[str, Any], reply: _Reply, item: str) -> None:
        assert "function_call" in kind or item in reply.parts, event
        if kind in _DELTAS:
            reply.items[item] += event["delta"]
        for words in ("text", "transcript", "arguments"):
            assert event.get(words, reply.items[item]) == reply.items[item], event

    def _created(self, response: dict[str, Any]) -> None:
        assert response["id"] not in self._replies and response["id"] not in self._ended, response
        reply = _Reply(beside=response["conversation_id"] is None)
        assert reply.beside or all(each.beside for each in self._replies.values()), "two at once in the conversation"
        assert response["status"] == "in_progress" and not response["output"], response
        self._replies[response["id"]] = reply
        self.ids.append(response["id"])

    def _done(self, response: dict[str, Any]) -> None:
        reply = self._replies.pop(response["id"])
        assert not reply.open and not reply.parts, response
        assert [item["id"] for item in response["output"]] == list(reply.items), response
        assert response["status"] != "in_progress", response
        self._ended.add(response["id"])
