"""The package openai: a session over WebSocket, then a client secret and a call that it opens and hangs up."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection, AsyncRealtimeConnectionManager
from openai.types.realtime import RealtimeServerEvent
from steps import BYTES_PER_S, MOMENT_S, STEPS, Microphone, Plan, Waiter, check_answer, check_heard, main

TOOL = {
    "type": "function",
    "name": "open_door",
    "description": "Open the door of a room.",
    "parameters": {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]},
}


class Program:
    """A phone on WebSocket that plays what comes at once and at real time."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._openai = AsyncOpenAI(api_key=plan.key, base_url=f"{plan.url}/v1", max_retries=0)
        self._manager: AsyncRealtimeConnectionManager | None = None
        self._connection: AsyncRealtimeConnection
        self._events: list[RealtimeServerEvent] = []
        self._seen = 0
        self._waiter = Waiter()
        self._microphone = Microphone(self._give)
        self._tasks: list[asyncio.Task[None]] = []
        self._audio_began = 0.0

    async def connect(self) -> None:
        self._manager = self._openai.realtime.connect(model="gpt-realtime")
        self._connection = await self._manager.enter()
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._microphone.run())]
        created = await self._until("session.created")
        assert created.session.type == "realtime" and created.session.audio.output.voice

    async def configure(self) -> None:
        await self._connection.session.update(
            session={
                "type": "realtime",
                "instructions": "Answer in one sentence.",
                "audio": {
                    "input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": 300}},
                    "output": {"voice": "marin", "speed": 1.0},
                },
            }
        )
        session = (await self._until("session.updated")).session
        assert session.instructions == "Answer in one sentence."
        assert session.audio.input.turn_detection.silence_duration_ms == 300
        assert session.audio.input.turn_detection.interrupt_response is True

    async def voice_turn(self) -> None:
        self._microphone.say(self._plan.question)
        stopped = await self._until("input_audio_buffer.speech_stopped")
        transcribed = await self._until("conversation.item.input_audio_transcription.completed")
        assert transcribed.item_id == stopped.item_id and transcribed.transcript
        answer = await self._answer()
        check_answer(answer, self._plan.answers)
        assert self._audio_bytes() > BYTES_PER_S // 2

    async def text_turn(self) -> None:
        await self._ask(self._plan.text)
        check_answer(await self._answer(), self._plan.text_answers)

    async def barge_in(self) -> None:
        await self._ask(self._plan.story)
        await self._until("response.output_audio.delta")
        await asyncio.sleep(MOMENT_S)
        self._microphone.say(self._plan.interruption)
        await self._until("input_audio_buffer.speech_started")
        played_s = asyncio.get_running_loop().time() - self._audio_began
        played_ms = int(1000 * min(played_s, self._audio_bytes() / BYTES_PER_S))
        done = await self._until("response.done")
        assert done.response.status == "cancelled"
        assert done.response.status_details.reason == "turn_detected"
        item_id, said = done.response.output[0].id, self._said(done.response.id)
        await self._connection.conversation.item.truncate(item_id=item_id, content_index=0, audio_end_ms=played_ms)
        truncated = await self._until("conversation.item.truncated")
        assert (truncated.item_id, truncated.audio_end_ms) == (item_id, played_ms)
        await self._connection.conversation.item.retrieve(item_id=item_id)
        item = (await self._until("conversation.item.retrieved")).item
        check_heard(self._plan, item.content[0].transcript, said, played_ms)
        await self._until("response.output_audio.delta")
        if self._plan.patient:
            check_answer(await self._answer(), ())

    async def tool_call(self) -> None:
        await self._connection.session.update(session={"type": "realtime", "tools": [TOOL], "tool_choice": "auto"})
        assert (await self._until("session.updated")).session.tools[0].name == "open_door"
        await self._ask(self._plan.tool_request or "")
        arguments = await self._until("response.function_call_arguments.done")
        assert arguments.name == "open_door" and "room" in json.loads(arguments.arguments)
        done = await self._until("response.done")
        call = next(item for item in done.response.output if item.type == "function_call")
        assert (call.call_id, call.arguments) == (arguments.call_id, arguments.arguments)
        output = {"type": "function_call_output", "call_id": call.call_id, "output": '{"open": true}'}
        await self._connection.conversation.item.create(item=output)
        await self._connection.response.create()
        check_answer(await self._answer(), ())

    async def clean_end(self) -> None:
        errors = [event.error for event in self._events if event.type == "error"]
        self._tasks[1].cancel()
        await self._connection.close()
        await self._tasks[0]
        assert not errors, errors

    async def client_secret(self) -> None:
        """Make a secret bound to a session's configuration, and open a session with it."""
        session = {"type": "realtime", "instructions": "Be brief."}
        made = await self._openai.realtime.client_secrets.create(
            session=session, expires_after={"anchor": "created_at", "seconds": 60}
        )
        assert made.value.startswith("ek_") and made.session.instructions == "Be brief."
        browser = AsyncOpenAI(api_key=made.value, base_url=f"{self._plan.url}/v1", max_retries=0)
        async with browser.realtime.connect(model="gpt-realtime") as connection:
            event = await connection.recv()
            assert event.type == "session.created" and event.session.instructions == "Be brief."

    async def call_and_hangup(self) -> None:
        """Open a call with an offer and a session object, hang it up, and see that it is gone."""
        peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        channel = peer.createDataChannel("oai-events")
        events: list[dict[str, Any]] = []
        channel.on("message", lambda text: (events.append(json.loads(text)), self._waiter.wake()))
        peer.addTransceiver("audio")
        await peer.setLocalDescription(await peer.createOffer())
        session: Any = {"type": "realtime", "instructions": "Be brief."}
        created = await self._openai.realtime.calls.create(sdp=peer.localDescription.sdp, session=session)
        call_id = created.response.headers["Location"].rsplit("/", 1)[1]
        await peer.setRemoteDescription(RTCSessionDescription(sdp=created.text, type="answer"))
        await self._waiter.until(lambda: events, "the call's first event")
        assert events[0]["type"] == "session.created" and events[0]["session"]["instructions"] == "Be brief."
        ended = asyncio.Event()
        channel.on("close", ended.set)
        await self._openai.realtime.calls.hangup(call_id)
        await ended.wait()
        await peer.close()

    # What comes and goes. -------------------------------------------------------------------------------------------

    async def _give(self, pcm: bytes) -> None:
        await self._connection.input_audio_buffer.append(audio=base64.b64encode(pcm).decode())

    async def _read(self) -> None:
        async for event in self._connection:
            if event.type == "response.output_audio.delta" and self._newest("response.output_audio.delta") != (
                event.response_id
            ):
                self._audio_began = asyncio.get_running_loop().time()
            self._events.append(event)
            self._waiter.wake()

    async def _until(self, kind: str) -> Any:
        """Wait for the next event of a type after those already waited for; an error on the way is one."""

        def came() -> bool:
            while self._seen < len(self._events):
                self._seen += 1
                event = self._events[self._seen - 1]
                assert event.type != "error", event
                if event.type == kind:
                    return True
            return False

        await self._waiter.until(came, kind)
        return self._events[self._seen - 1]

    async def _ask(self, text: str) -> None:
        content: Any = [{"type": "input_text", "text": text}]
        await self._connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})
        await self._connection.response.create()

    async def _answer(self) -> str:
        """Wait for the answer to end, and let it be heard to its end."""
        done = await self._until("response.done")
        assert done.response.status == "completed", done.response
        text = self._said(done.response.id)
        assert done.response.output[0].content[0].transcript == text
        heard_at = self._audio_began + self._audio_bytes() / BYTES_PER_S
        await asyncio.sleep(heard_at - asyncio.get_running_loop().time())
        return text

    def _said(self, response_id: str) -> str:
        deltas = [e for e in self._events if e.type == "response.output_audio_transcript.delta"]
        return "".join(delta.delta for delta in deltas if delta.response_id == response_id)

    def _newest(self, kind: str) -> str | None:
        return next((event.response_id for event in reversed(self._events) if event.type == kind), None)

    def _audio_bytes(self) -> int:
        """Return the bytes of the newest answer's audio."""
        deltas = [e for e in self._events if e.type == "response.output_audio.delta"]
        return sum(len(base64.b64decode(e.delta)) for e in deltas if e.response_id == deltas[-1].response_id)


main(Program, (*STEPS, "client secret", "call and hangup"))
