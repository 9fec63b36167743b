"""Whole sessions on WebSocket, with the real host and the test double: hostile events, and the openai client."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soxr
from aiohttp import ClientSession, ClientWebSocketResponse
from live_server import live
from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection

from duplex.talk import read_recording

pytestmark = pytest.mark.protocol

SPEECH = Path(__file__).parents[1] / "data" / "speech" / "s00.flac"
Event = dict[str, Any]


async def until(ws: ClientWebSocketResponse, kind: str) -> list[Event]:
    """Receive events up to the first of a type."""
    seen: list[Event] = []
    while not seen or seen[-1]["type"] != kind:
        seen.append(await ws.receive_json())
    return seen


def of(seen: list[Event], kind: str) -> list[Event]:
    return [event for event in seen if event["type"] == kind]


HOSTILE: list[str | bytes] = [
    "[]", '"x"', '{"type":5}', "{}", '{"type":"no.such"}', '{"type":"response.create"', b"\xff\xfe", b"{}",
    '{"type":"x","a":' + '{"a":' * 200 + "1" + "}" * 200 + "}", '{"type":"response.cancel","n":NaN}',
    '{"type":"response.cancel","type":"response.cancel"}', '{"type":"session.update","session":{"type":"weird"}}',
    '{"type":"session.update","session":{"tools":[{"type":"mcp","server_label":"s"}]}}',
    '{"type":"conversation.item.truncate","item_id":"none","content_index":0,"audio_end_ms":5}',
    '{"type":"conversation.item.truncate","item_id":"none","audio_end_ms":' + "9" * 50 + "}",
    '{"type":"conversation.item.delete","item_id":"none"}', '{"type":"conversation.item.retrieve","item_id":"none"}',
    '{"type":"input_audio_buffer.append","audio":"AAA"}', '{"type":"input_audio_buffer.append","audio":"AA=="}',
    '{"type":"input_audio_buffer.commit"}', '{"type":"response.cancel"}',
    '{"type":"response.cancel","response_id":"none"}', '{"type":"output_audio_buffer.clear"}',
    '{"type":"duplex.session.resume"}',
    '{"type":"conversation.item.create","item":{"type":"function_call_output","call_id":"c","output":"1"}}',
]  # fmt: skip


async def test_each_hostile_event_is_one_error_and_nothing_else_changes() -> None:
    async with live() as (url, observer), ClientSession(url) as client, client.ws_connect("/v1/realtime") as ws:
        await until(ws, "conversation.created")
        for n, text in enumerate(HOSTILE):
            if isinstance(text, bytes):
                await ws.send_bytes(text)
            else:
                await ws.send_str(text)
            good = {"type": "session.update", "event_id": f"good_{n}", "session": {"instructions": str(n)}}
            await ws.send_str(json.dumps(good))
            seen = await until(ws, "session.updated")
            assert [event["type"] for event in seen] == ["error", "session.updated"], text
            assert seen[0]["error"]["type"] == "invalid_request_error"
            assert seen[1]["session"]["instructions"] == str(n)
        assert observer.value("duplex_sessions") == 1


async def test_errors_have_the_codes_that_clients_look_for() -> None:
    async with live() as (url, _), ClientSession(url) as client, client.ws_connect("/v1/realtime") as ws:
        await until(ws, "conversation.created")
        for kind, code in [
            ("response.cancel", "response_cancel_not_active"),
            ("input_audio_buffer.commit", "input_audio_buffer_commit_empty"),
        ]:
            await ws.send_str(json.dumps({"type": kind, "event_id": "mine"}))
            error = (await until(ws, "error"))[-1]["error"]
            assert (error["code"], error["event_id"]) == (code, "mine")


async def test_a_second_response_is_refused_and_the_first_goes_on() -> None:
    async with live("One two three.") as (url, _), ClientSession(url) as client:
        async with client.ws_connect("/v1/realtime") as ws:
            await until(ws, "conversation.created")
            for event_id in ("e1", "e2"):
                await ws.send_str(json.dumps({"type": "response.create", "event_id": event_id}))
            seen = await until(ws, "response.done")
            (error,) = of(seen, "error")
            assert error["error"]["code"] == "conversation_already_has_active_response"
            assert error["error"]["event_id"] == "e2"
            assert len(of(seen, "response.created")) == 1
            assert seen[-1]["response"]["status"] == "completed"


async def test_a_text_turn_is_answered_in_voice_and_in_text() -> None:
    async with live("One two three.", "Four five.") as (url, _), ClientSession(url) as client:
        async with client.ws_connect("/v1/realtime") as ws:
            await until(ws, "conversation.created")
            item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Count."}]}
            await ws.send_str(json.dumps({"type": "conversation.item.create", "item": item}))
            await ws.send_str(json.dumps({"type": "response.create", "response": {"metadata": {"k": "v"}}}))
            seen = await until(ws, "response.done")
            audio = b"".join(base64.b64decode(e["delta"]) for e in of(seen, "response.output_audio.delta"))
            assert np.abs(np.frombuffer(audio, "<i2")).max() > 1000
            done = seen[-1]["response"]
            assert done["output"][0]["content"] == [{"type": "output_audio", "transcript": "One two three."}]
            assert done["metadata"] == {"k": "v"}
            await ws.send_str(json.dumps({"type": "response.create", "response": {"output_modalities": ["text"]}}))
            seen = await until(ws, "response.done")
            assert of(seen, "response.output_audio.delta") == []
            assert of(seen, "response.output_text.done")[0]["text"] == "Four five."
            numbers = [int(event["event_id"].split("_")[1]) for event in seen]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


async def speak(connection: AsyncRealtimeConnection) -> None:
    """Append a sentence and the silence after it, faster than real time."""
    pcm = soxr.resample(read_recording(SPEECH), 48_000, 24_000)
    pcm = np.concatenate([pcm, np.zeros(36_000, np.int16)]).astype("<i2")
    for start in range(0, len(pcm), 4800):
        chunk = base64.b64encode(pcm[start : start + 4800].tobytes()).decode()
        await connection.input_audio_buffer.append(audio=chunk)


async def test_the_openai_client_holds_a_conversation() -> None:
    async with live("One two three.") as (url, _):
        openai = AsyncOpenAI(api_key="none", base_url=f"{url}/v1")
        async with openai.realtime.connect(model="any") as connection:
            await connection.session.update(session={"type": "realtime", "instructions": "Be brief."})
            await speak(connection)
            seen = []
            async for event in connection:
                seen.append(event)
                if event.type == "response.done":
                    break
        await openai.close()
    kinds = [event.type for event in seen]
    expected = [
        "session.created", "session.updated", "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped", "input_audio_buffer.committed", "conversation.item.added",
        "response.created", "response.output_item.added", "response.content_part.added",
        "response.output_audio.delta", "response.output_audio.done", "response.output_item.done", "response.done",
    ]  # fmt: skip
    places = [kinds.index(kind) for kind in expected]
    assert places == sorted(places)
    assert seen[-1].response.status == "completed"
    assert "error" not in kinds


async def test_sessions_end_without_a_trace() -> None:
    async with live() as (url, observer), ClientSession(url) as client:
        for _ in range(3):
            async with client.ws_connect("/v1/realtime") as ws:
                await until(ws, "conversation.created")
        while observer.value("duplex_sessions"):  # noqa: ASYNC110 - under the ceiling of `live`
            await asyncio.sleep(0.01)
        assert observer.value("duplex_admission_total", decision="admitted", reason="ok") == 3
