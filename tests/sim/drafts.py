"""Servers whose replies may be begun before a turn has ended, and what may happen meanwhile."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

from duplex_models.sim import SimOptions

from duplex.config import PacingSettings, Settings, TurnSettings
from duplex.protocol import TransportName
from tests.sim.world import Server, Session

TEXT = "One two three four, five six seven eight nine. Ten eleven twelve thirteen fourteen fifteen."
COSTS: dict[str, Any] = {"first_token_s": 0.03, "token_s": 0.005, "talk_s": 0.02, "vocode_s": 0.01}
SPOKEN_MS = 960
WORDS_AT_MS = SPOKEN_MS + 64 + 70
"""The pause's words are there, and the draft has begun."""
ID = re.compile(r"(item|resp|conv|sess)_\w+")
TRANSPORTS: list[TransportName] = ["webrtc", "websocket"]


def serve(speculate: bool = True, pacing: dict[str, Any] | None = None, **options: Any) -> Server:
    settings = Settings(turn=TurnSettings(speculate=speculate), pacing=PacingSettings(**(pacing or {})))
    return Server(SimOptions(**({"vad": "level", "script": (TEXT,)} | COSTS | options)), settings)


def speak(server: Server, session: Session) -> None:
    """Speak a turn, and stop where its draft is being thought."""
    session.say(SPOKEN_MS)
    server.advance(WORDS_AT_MS)


def outcomes(server: Server) -> dict[str, int]:
    found = [labels["outcome"] for name, _, labels in server.measures if name == "duplex_speculation_total"]
    return {outcome: found.count(outcome) for outcome in found}


def draft_of(session: Session) -> Any:
    draft = session.actor._core._replies._speculation._draft
    assert draft is not None, "a draft is being made"
    return draft


def told(session: Session) -> list[Any]:
    """Return what the client was told, without ids, measures and when sound began; a reply's text as one, and the length of its audio."""
    names: dict[str, str] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items() if k not in ("event_id", "rtp_timestamp")}
        if isinstance(value, list):
            return [plain(each) for each in value]
        return ID.sub(named, value) if isinstance(value, str) else value

    def named(found: re.Match[str]) -> str:
        return names.setdefault(found[0], f"{found[1]}{len(names)}")

    shown: list[Any] = []
    joined: dict[tuple[str, str], Any] = {}
    """By type and reply; how they alternate is a matter of time."""
    for _, told in session.client.events:
        event = plain(told)
        if event["type"].endswith(".delta") and "response_id" in event:
            if "audio.delta" in event["type"]:
                event["delta"] = len(base64.b64decode(event["delta"]))
            first = joined.setdefault((event["type"], event["response_id"]), event)
            if first is not event:
                first["delta"] += event["delta"]
                continue
        if event["type"] != "duplex.metrics":
            shown.append(event)
    return shown


def settled(server: Server) -> None:
    """Nothing is left in any stage, and no invariant was broken."""
    server.check()
    assert server.runners.idle
    assert server.stage("think").running == 0


CHANGES: dict[str, Callable[[Session], None]] = {
    "instructions": lambda s: s.event(
        type="session.update", session={"type": "realtime", "instructions": "be brief"}
    ),
    "speed": lambda s: s.event(
        type="session.update", session={"type": "realtime", "audio": {"output": {"speed": 1.5}}}
    ),
    "item created": lambda s: s.event(
        type="conversation.item.create",
        item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": "besides"}]},
    ),
    "item deleted": lambda s: s.event(type="conversation.item.delete", item_id="item_first"),
}  # fmt: skip
DROPS: dict[str, Callable[[Session], None]] = {
    "cancel": lambda s: s.event(type="response.cancel"),
    "clear output": lambda s: s.event(type="output_audio_buffer.clear"),
    "clear input": lambda s: s.event(type="input_audio_buffer.clear"),
    "commit": lambda s: s.event(type="input_audio_buffer.commit"),
    "no detection": lambda s: s.event(
        type="session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": None}}}
    ),
    "no answers": lambda s: s.event(
        type="session.update",
        session={
            "type": "realtime",
            "audio": {"input": {"turn_detection": {"type": "semantic_vad", "create_response": False}}},
        },
    ),
    "reply": lambda s: s.event(type="response.create"),
}
ANSWERED = {"cancel", "clear output", "reply"}
