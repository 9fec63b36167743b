"""The package livekit-plugins-openai: its RealtimeModel, driven as an agent session drives it."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

from livekit import rtc
from livekit.agents import llm
from livekit.plugins.openai.realtime import RealtimeModel, RealtimeSession
from openai.types.realtime import ConversationItemRetrieveEvent
from steps import BYTES_PER_S, MOMENT_S, RATE, Microphone, Plan, Waiter, check_answer, check_heard, main


@llm.function_tool
async def open_door(room: str) -> str:
    """Open the door of a room."""
    return f"The door of the {room} is open."


class Program:
    """An agent around one session of the model; it plays nothing, but counts what it would play."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._model: RealtimeModel
        self._session: RealtimeSession
        self._waiter = Waiter()
        self._microphone = Microphone(self._give)
        self._listening: asyncio.Task[None]
        self._events: list[dict[str, Any]] = []
        self._seen = 0
        self._errors: list[object] = []
        self._generations: list[llm.GenerationCreatedEvent] = []
        self._transcripts: list[str] = []
        self._speech_started = 0

    async def connect(self) -> None:
        self._model = RealtimeModel(
            base_url=f"{self._plan.url}/v1", api_key=self._plan.key, modalities=["audio"], voice="marin"
        )
        self._session = self._model.session()
        self._session.on("openai_server_event_received", self._take)
        self._session.on("generation_created", self._take_generation)
        self._session.on("input_audio_transcription_completed", self._take_transcript)
        self._session.on("input_speech_started", self._take_onset)
        self._session.on("error", lambda error: self._errors.append(error.error))
        await self._until("session.created")
        self._listening = asyncio.create_task(self._microphone.run())

    async def configure(self) -> None:
        await self._session.update_instructions("Answer in one sentence.")
        await self._session.update_tools([])
        history = llm.ChatContext.empty()
        history.add_message(role="user", content="My name is Ada.")
        history.add_message(role="assistant", content="Hello Ada.")
        await self._session.update_chat_ctx(history)
        kept = [item.text_content for item in self._session.chat_ctx.items if item.type == "message"]
        assert kept == ["My name is Ada.", "Hello Ada."]
        await self._session.update_chat_ctx(llm.ChatContext.empty())
        assert self._session.chat_ctx.items == []
        updates = [event["session"] for event in self._events if event["type"] == "session.updated"]
        assert updates[-1]["instructions"] == "Answer in one sentence."

    async def voice_turn(self) -> None:
        heard, before = len(self._transcripts), len(self._generations)
        self._microphone.say(self._plan.question)
        await self._waiter.until(lambda: len(self._generations) > before, "an answer")
        check_answer(await self._listen(self._generations[-1]), self._plan.answers)
        await self._waiter.until(lambda: len(self._transcripts) > heard, "the question's transcript")
        assert self._transcripts[-1]

    async def text_turn(self) -> None:
        await self._say(self._plan.text)
        generation = await self._session.generate_reply()
        assert generation.user_initiated
        check_answer(await self._listen(generation), self._plan.text_answers)

    async def barge_in(self) -> None:
        self._seen = len(self._events)
        await self._say(self._plan.story)
        generation = await self._session.generate_reply()
        delta = await self._until("response.output_audio.delta")
        began = asyncio.get_running_loop().time()
        onsets, before = self._speech_started, len(self._generations)
        await asyncio.sleep(MOMENT_S)
        self._microphone.say(self._plan.interruption)
        await self._waiter.until(lambda: self._speech_started > onsets, "the interruption")
        item_id = delta["item_id"]
        passed_ms = 1000 * (asyncio.get_running_loop().time() - began)
        played_ms = int(min(passed_ms, self._received_ms(item_id)))
        self._session.interrupt()
        said = await self._listen(generation)
        self._session.truncate(message_id=item_id, modalities=["audio"], audio_end_ms=played_ms)
        await self._until("conversation.item.truncated")
        self._session.send_event(ConversationItemRetrieveEvent(type="conversation.item.retrieve", item_id=item_id))
        retrieved = await self._until("conversation.item.retrieved")
        check_heard(self._plan, retrieved["item"]["content"][0]["transcript"], said, played_ms)
        await self._waiter.until(lambda: len(self._generations) > before, "an answer to the interruption")
        if self._plan.patient:
            check_answer(await self._listen(self._generations[-1]), ())

    async def tool_call(self) -> None:
        await self._session.update_tools([open_door])
        await self._say(self._plan.tool_request or "")
        generation = await self._session.generate_reply()
        calls = [call async for call in generation.function_stream]
        assert [call.name for call in calls] == ["open_door"], calls
        output = llm.FunctionCallOutput(
            call_id=calls[0].call_id,
            name="open_door",
            output=await open_door(**json.loads(calls[0].arguments)),
            is_error=False,
        )
        context = self._session.chat_ctx.copy()
        context.items.append(output)
        await self._session.update_chat_ctx(context)
        check_answer(await self._listen(await self._session.generate_reply()), ())

    async def clean_end(self) -> None:
        self._listening.cancel()
        await self._session.aclose()
        await self._model.aclose()
        assert not self._errors, self._errors

    # What comes and goes. -------------------------------------------------------------------------------------------

    async def _give(self, pcm: bytes) -> None:
        self._session.push_audio(
            rtc.AudioFrame(data=pcm, sample_rate=RATE, num_channels=1, samples_per_channel=len(pcm) // 2)
        )

    def _take(self, event: dict[str, Any]) -> None:
        self._events.append(event)
        self._waiter.wake()

    def _take_generation(self, generation: llm.GenerationCreatedEvent) -> None:
        self._generations.append(generation)
        self._waiter.wake()

    def _take_transcript(self, event: llm.InputTranscriptionCompleted) -> None:
        if event.is_final:
            self._transcripts.append(event.transcript)
        self._waiter.wake()

    def _take_onset(self, _: llm.InputSpeechStartedEvent) -> None:
        self._speech_started += 1
        self._waiter.wake()

    async def _until(self, kind: str) -> dict[str, Any]:
        def came() -> bool:
            while self._seen < len(self._events):
                self._seen += 1
                if self._events[self._seen - 1]["type"] == kind:
                    return True
            return False

        await self._waiter.until(came, kind)
        return self._events[self._seen - 1]

    def _received_ms(self, item_id: str) -> float:
        deltas = [event for event in self._events if event["type"] == "response.output_audio.delta"]
        received = sum(len(base64.b64decode(e["delta"])) for e in deltas if e["item_id"] == item_id)
        return 1000 * received / BYTES_PER_S

    async def _say(self, text: str) -> None:
        """Write a turn into the conversation."""
        context = self._session.chat_ctx.copy()
        context.add_message(role="user", content=text)
        await self._session.update_chat_ctx(context)

    async def _listen(self, generation: llm.GenerationCreatedEvent) -> str:
        """Return an answer's text; its audio has come too."""
        text, samples = "", 0
        async for message in generation.message_stream:
            async for frame in message.audio_stream:
                samples += frame.samples_per_channel
            text += "".join([part async for part in message.text_stream])
        assert samples > 0
        return text


main(Program)
