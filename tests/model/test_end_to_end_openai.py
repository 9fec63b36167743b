"""Whole conversations of the openai client with the default model, over WebSocket and as a call."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import numpy as np
import pytest
from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection

from duplex.payloads import Int16Array
from duplex.talk import end_of_energy
from tests.model.caller import RATE, EventLog, call, text_of
from tests.model.local_server import LocalServer, within
from tests.speech import fact_audio, facts, normal, sentence_audio, sentences, word_error_rate

pytestmark = [pytest.mark.model, pytest.mark.alone]

WIRE_RATE = 24_000
LOUDSPEAKER_MS = 1000
"""Delay of the WebSocket client's player, which the server cannot know."""
STORY = "Tell me about the history of London."
TURN = [
    "input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped", "input_audio_buffer.committed",
    "conversation.item.added", "conversation.item.done", "conversation.item.input_audio_transcription.completed",
    "response.created", "response.output_item.added", "response.content_part.added",
    "response.output_audio_transcript.delta", "response.output_audio.done", "response.output_audio_transcript.done",
    "response.content_part.done", "response.output_item.done", "response.done",
]  # fmt: skip
"""A voice turn's events in their order; others come between."""


def in_order(wanted: list[str], kinds: list[str]) -> bool:
    """Return whether the wanted types are among the others in this order."""
    left = iter(kinds)
    return all(kind in left for kind in wanted)


class Phone(EventLog):
    """A client on WebSocket: its events, and a player that plays the newest reply at once and at real time."""

    def __init__(self, connection: AsyncRealtimeConnection) -> None:
        super().__init__()
        self.connection = connection
        self.pcm = bytearray()
        """Audio of the reply that plays."""
        self._began = 0.0

    async def read(self) -> None:
        """Take events until the connection ends."""
        async for event in self.connection:
            if event.type == "response.created":
                self.pcm = bytearray()
            elif event.type == "response.output_audio.delta":
                self._began = self._began if self.pcm else asyncio.get_running_loop().time()
                self.pcm += base64.b64decode(event.delta)
            self.add(event.to_dict())

    def played_ms(self) -> int:
        """Return how much of the reply has been played."""
        passed_s = asyncio.get_running_loop().time() - self._began
        return round(1000 * min(passed_s, len(self.pcm) / 2 / WIRE_RATE))

    async def played(self) -> None:
        """Play the reply to its end."""
        left_s = len(self.pcm) / 2 / WIRE_RATE - self.played_ms() / 1000
        await asyncio.sleep(left_s)

    async def append(self, pcm: Int16Array, *, at_real_time: bool) -> None:
        """Say a recording at 24 kHz in pieces of 100 ms."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        step = WIRE_RATE // 10
        for start in range(0, len(pcm), step):
            if at_real_time:
                await asyncio.sleep(began + start / WIRE_RATE - loop.time())
            piece = pcm[start : start + step].astype("<i2").tobytes()
            await self.connection.input_audio_buffer.append(audio=base64.b64encode(piece).decode())

    async def item_text(self, item_id: str) -> str:
        """Return an item's text as the server's history has it."""
        await self.connection.conversation.item.retrieve(item_id=item_id)
        return text_of((await self.until("conversation.item.retrieved"))["item"])


def silence(seconds: float) -> Int16Array:
    return np.zeros(int(seconds * WIRE_RATE), np.int16)


async def test_a_conversation_over_websocket(server: LocalServer) -> None:
    openai = AsyncOpenAI(api_key="none", base_url=f"{server.url}/v1", max_retries=0)
    async with asyncio.TaskGroup() as tasks, openai.realtime.connect(model="local") as connection:
        phone = Phone(connection)
        tasks.create_task(phone.read())
        await connection.session.update(session={"type": "realtime", "max_output_tokens": 100})
        assert (await phone.until("session.updated"))["session"]["max_output_tokens"] == 100
        await _voice_turn(phone)
        await phone.played()
        item_id, heard, talking = await _interrupted_text_turn(phone, tasks)
        history = await phone.item_text(item_id)
        assert phone.said(item_id).startswith(heard) and heard != phone.said(item_id)
        assert normal(history) and heard.startswith(history) and history != heard
        await phone.until("response.output_audio.delta")  # the turn that interrupted is answered
        talking.cancel()
        turns = phone.of("conversation.item.input_audio_transcription.completed")
        assert word_error_rate([sentences()[11]], [turns[1]["transcript"]]) <= 0.3
        await connection.response.cancel()
        cancelled = await phone.until("response.done")
        assert cancelled["response"]["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}
        assert phone.of("error") == []
    await openai.close()
    await within(5, lambda: server.measure("duplex_sessions") == 0, "the session ends")
    assert server.logged("websocket_closed")[-1]["reason"] == "client"


async def _voice_turn(phone: Phone) -> None:
    """Ask the capital of France, faster than at real time."""
    await phone.append(np.concatenate([fact_audio(0, "af_sarah", WIRE_RATE), silence(2)]), at_real_time=False)
    done = await phone.until("response.done")
    assert done["response"]["status"] == "completed"
    assert facts()[0].is_answered_by(text_of(done["response"]["output"][0]))
    assert in_order(TURN, phone.kinds())
    assert end_of_energy(np.frombuffer(bytes(phone.pcm), "<i2")) > WIRE_RATE // 2


async def _interrupted_text_turn(phone: Phone, tasks: asyncio.TaskGroup) -> tuple[str, str, asyncio.Task[None]]:
    """Ask for a story, let it play, talk over it, and truncate it to what this player's slow loudspeaker gave out;
    the talking goes on.

    Returns:
        Its item, what the server took for heard before the truncation, and the talking.
    """
    content: Any = [{"type": "input_text", "text": STORY}]
    await phone.connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})
    await phone.connection.response.create()
    await phone.until("response.output_audio.delta")
    speech = np.concatenate([silence(2.5), sentence_audio(11, WIRE_RATE), silence(2)])
    talking = tasks.create_task(phone.append(speech, at_real_time=True))
    await phone.until("input_audio_buffer.speech_started")
    played_ms = phone.played_ms() - LOUDSPEAKER_MS
    done = await phone.until("response.done")
    assert done["response"]["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    item_id: str = done["response"]["output"][0]["id"]
    heard = await phone.item_text(item_id)
    await phone.connection.conversation.item.truncate(item_id=item_id, content_index=0, audio_end_ms=played_ms)
    truncated = await phone.until("conversation.item.truncated")
    assert (truncated["item_id"], truncated["audio_end_ms"]) == (item_id, played_ms)
    assert 1500 <= played_ms <= 5000
    return item_id, heard, talking


async def test_a_conversation_as_a_call(server: LocalServer) -> None:
    async with call(server.url, {"max_output_tokens": 100}) as caller:
        caller.microphone.say(fact_audio(1, "am_michael", RATE))
        done = await caller.until("response.done")
        assert done["response"]["status"] == "completed"
        assert facts()[1].is_answered_by(text_of(done["response"]["output"][0]))
        await caller.until("output_audio_buffer.stopped")
        assert in_order(TURN, caller.kinds())
        assert in_order(["response.content_part.added", "output_audio_buffer.started"], caller.kinds())
        before = end_of_energy(caller.heard())
        assert before > RATE // 2
        caller.ask(STORY)
        await caller.until("output_audio_buffer.started")
        await caller.until_heard(lambda pcm: end_of_energy(pcm) > before + 2 * RATE)
        caller.microphone.say(sentence_audio(11, RATE))
        await caller.until("input_audio_buffer.speech_started")
        await caller.until("output_audio_buffer.cleared")
        done = await caller.until("response.done")
        assert done["response"]["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
        truncated = await caller.until("conversation.item.truncated")
        item_id = done["response"]["output"][0]["id"]
        assert truncated["item_id"] == item_id
        assert 1500 <= truncated["audio_end_ms"] <= 5000
        history = await caller.item_text(item_id)
        assert normal(history) and caller.said(item_id).startswith(history) and history != caller.said(item_id)
        await caller.until("output_audio_buffer.started")  # the turn that interrupted is answered
        assert caller.of("error") == []
