"""What users and clients do at random, and a look at every invariant of a session that can be seen from outside its stages."""

from __future__ import annotations

from typing import Any

from duplex.session.effects import SubmitUtterance
from tests.sim.world import Session

ACTIONS = [
    "speak", "cough", "cancel", "create", "clear_output", "commit", "clear_input", "truncate", "type", "retrieve",
    "unknown", "no_detection", "detection", "report", "delete", "aside", "aside_audio", "cancel_one",
]  # fmt: skip


def items_of(session: Session) -> list[str]:
    return [event["item"]["id"] for event in session.client.of("conversation.item.added")]


def act(session: Session, action: str, number: int) -> None:
    items = items_of(session) or ["item_none"]
    item = items[number % len(items)]
    replies = [event["response"]["id"] for event in session.client.of("response.created")] or ["resp_none"]
    beside = {"conversation": "none", "instructions": "Go.", **({"input": []} if number % 2 else {})}
    turn_detection: Any = {"type": "semantic_vad"} if action == "detection" else None
    events: dict[str, dict[str, Any]] = {
        "cancel": {"type": "response.cancel"},
        "create": {"type": "response.create"},
        "clear_output": {"type": "output_audio_buffer.clear"},
        "commit": {"type": "input_audio_buffer.commit"},
        "clear_input": {"type": "input_audio_buffer.clear"},
        "truncate": {"type": "conversation.item.truncate", "item_id": item, "content_index": 0, "audio_end_ms": number},
        "retrieve": {"type": "conversation.item.retrieve", "item_id": item},
        "delete": {"type": "conversation.item.delete", "item_id": item},
        "aside": {"type": "response.create", "response": beside | {"output_modalities": ["text"]}},
        "aside_audio": {"type": "response.create", "response": beside},
        "cancel_one": {"type": "response.cancel", "response_id": replies[-1 - number % min(3, len(replies))]},
        "unknown": {"type": "unknown.event"},
        "report": {"type": "duplex.playback.report", "response_id": "resp_none", "played_ms": number},
    }
    match action:
        case "speak":
            session.say(350 + number)
        case "cough":
            session.say(120)
        case "type":
            session.type_text("hello")
        case "detection" | "no_detection":
            audio = {"input": {"turn_detection": turn_detection}}
            session.event(type="session.update", session={"type": "realtime", "audio": audio})
        case _:
            session.event(event_id=f"e{number}", **events[action])


class Watch:
    """Looks at one session after every step.

    Args:
        session: under watch.
        live: its input comes in real time, so that the clock bounds what can have been heard.
    """

    def __init__(self, session: Session, live: bool = True) -> None:
        self._session = session
        self._live = live
        self._fronts: dict[str, tuple[int, int]] = {}
        self._watermark = 0
        self._seen = 0

    def check(self) -> None:
        core = self._session.actor._core
        assert core._ear.watermark.position >= self._watermark
        self._watermark = core._ear.watermark.position
        lanes = [core.lane, *(aside.lane for aside in core._replies.asides._asides)]
        for lane, reply in [(each, reply) for each in lanes for reply in each]:
            sent, played = lane.sent(reply), lane.played(reply)
            assert reply.generated >= sent >= played
            before = self._fronts.get(reply.id, (0, 0))
            assert sent >= before[0] and played >= before[1]
            self._fronts[reply.id] = sent, played
        assert all(sum(not reply.done for reply in lane) <= 1 for lane in lanes)
        for item in core.conversation._items:
            if item.spoken is not None:
                assert item.spoken.text.startswith(item.heard_text())
        server = self._session.server
        assert all(
            runner.load().queued_ms <= server.settings.stages.queue_ms_max for runner in server.runners.runners.values()
        )
        assert self._session.actor.egress.waiting <= 48 * server.settings.pacing.generated_ms_max + 48_000
        for when, effect in self._session.effects[self._seen :]:
            if self._live and isinstance(effect, SubmitUtterance):
                assert effect.span.end <= when * 48_000 // 10**9 + 960
        self._seen = len(self._session.effects)
