"""G.711 and transcription sessions over a real WebSocket, opened as clients open them."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
import soxr
from aiohttp import ClientSession, WSServerHandshakeError
from live_server import live
from openai import AsyncOpenAI, BadRequestError
from test_live_websocket import SPEECH, of, until

from duplex.media import g711
from duplex.talk import read_recording

pytestmark = pytest.mark.protocol
KEY = "key-0123456789abcdef"
BEARER = {"Authorization": f"Bearer {KEY}"}


def speech(law: g711.Law) -> str:
    """Return a recording with silence behind it, as one append."""
    pcm = soxr.resample(read_recording(SPEECH), 24_000, 8_000).astype(np.int16)
    return base64.b64encode(g711.encode(np.concatenate([pcm, np.zeros(12_000, np.int16)]), law)).decode()


async def test_a_spoken_turn_in_g711_is_heard_and_answered_in_g711() -> None:
    async with live("One two three.") as (url, _):
        openai = AsyncOpenAI(api_key="none", base_url=f"{url}/v1", max_retries=0)
        async with openai.realtime.connect(model="any") as connection:
            listening: Any = {"format": {"type": "audio/pcmu"}}
            speaking: Any = {"format": {"type": "audio/pcma"}}
            await connection.session.update(
                session={"type": "realtime", "audio": {"input": listening, "output": speaking}}
            )
            await connection.input_audio_buffer.append(audio=speech(g711.Law.MU))
            said = b""
            async for event in connection:
                assert event.type != "error", event
                if event.type == "response.output_audio.delta":
                    said += base64.b64decode(event.delta)
                if event.type == "response.done":
                    break
            assert event.response.audio.output.format.type == "audio/pcma"
            sound = g711.decode(said, g711.Law.A)
            assert len(sound) > 8000 // 2
            assert np.abs(sound).max() > 1000
        await openai.close()


async def test_a_transcription_session_by_its_address_and_by_a_secret() -> None:
    async with live(server={"api_keys": {"app": KEY}}) as (url, _), ClientSession(url) as client:
        openai = AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0)
        made = await openai.realtime.client_secrets.create(
            session={"type": "transcription", "audio": {"input": {"format": {"type": "audio/pcma"}}}}
        )
        assert (made.session.type, made.session.object) == ("transcription", "realtime.transcription_session")
        with pytest.raises(BadRequestError) as refused:
            await openai.realtime.client_secrets.create(session={"type": "realtime", "audio": {"output": {"speed": 9}}})
        assert refused.value.param == "session.audio.output.speed"
        for headers, query in [(BEARER, "?intent=transcription"), ({"Authorization": f"Bearer {made.value}"}, "")]:
            async with client.ws_connect(f"/v1/realtime{query}", headers=headers) as ws:
                session = (await until(ws, "conversation.created"))[0]["session"]
                assert session["type"] == "transcription"
                law = g711.Law.A
                change = {"type": "transcription", "audio": {"input": {"format": {"type": "audio/pcma"}}}}
                await ws.send_json({"type": "session.update", "session": change})
                await ws.send_json({"type": "input_audio_buffer.append", "audio": speech(law)})
                seen = await until(ws, "conversation.item.input_audio_transcription.completed")
                assert seen[-1]["transcript"]
                assert not of(seen, "response.created") + of(seen, "error")
                await ws.send_json({"type": "response.create", "event_id": "mine"})
                error = (await until(ws, "error"))[-1]["error"]
                assert (error["code"], error["event_id"]) == ("unsupported", "mine")
        realtime = (await openai.realtime.client_secrets.create()).value
        for bearer, query in [(realtime, "?intent=transcription"), (KEY, "?intent=conversation")]:
            with pytest.raises(WSServerHandshakeError) as mismatch:
                await client.ws_connect(f"/v1/realtime{query}", headers={"Authorization": f"Bearer {bearer}"})
            assert mismatch.value.status == 400
        await openai.close()
