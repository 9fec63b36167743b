"""The package openai-agents: a realtime runner, an interruption that it handles itself, and a tool that it runs."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from steps import MOMENT_S, Microphone, Plan, Waiter, check_answer, check_heard, main

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"  # its exporter would call home

from agents import function_tool
from agents.realtime import AssistantMessageItem, RealtimeAgent, RealtimeRunner, RealtimeSession


class Program:
    """An app around one session of the runner."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._session: RealtimeSession
        self._waiter = Waiter()
        self._microphone = Microphone(self._give)
        self._tasks: list[asyncio.Task[None]] = []
        self._errors: list[object] = []
        self._raw: list[dict[str, Any]] = []
        """The server's events, as the session hands them on."""
        self._history: dict[str, AssistantMessageItem] = {}
        self._seen = 0
        self._interrupted = 0
        self._audio_bytes = 0
        self._tool_outputs: list[object] = []
        self._opened: list[str] = []

    async def connect(self) -> None:
        runner = RealtimeRunner(RealtimeAgent(name="Assistant", instructions="Answer in one sentence."))
        url = f"{self._plan.ws_url}/v1/realtime?model=gpt-realtime"
        self._session = await runner.run(model_config={"api_key": self._plan.key, "url": url})
        await self._session.enter()
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._microphone.run())]
        await self._until("session.created")

    async def configure(self) -> None:
        updated = await self._until("session.updated")
        session = updated["session"]
        assert session["instructions"] == "Answer in one sentence."
        assert session["audio"]["input"]["turn_detection"]["interrupt_response"] is True

    async def voice_turn(self) -> None:
        self._microphone.say(self._plan.question)
        await self._until("conversation.item.input_audio_transcription.completed")
        check_answer(await self._answer(), self._plan.answers)
        assert self._audio_bytes > 0

    async def text_turn(self) -> None:
        await self._session.send_message(self._plan.text)
        check_answer(await self._answer(), self._plan.text_answers)

    async def barge_in(self) -> None:
        await self._session.send_message(self._plan.story)
        added = await self._until("response.output_audio.delta")
        interrupted = self._interrupted
        await asyncio.sleep(MOMENT_S)
        self._microphone.say(self._plan.interruption)
        done = await self._until("response.done")
        assert done["response"]["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
        assert self._interrupted > interrupted, "the session did not tell the app to stop playing"
        truncated = await self._until("conversation.item.truncated")
        item = (await self._until("conversation.item.retrieved"))["item"]
        item_id = added["item_id"]
        assert truncated["item_id"] == item["id"] == item_id
        kept = item["content"][0]["transcript"]
        await self._waiter.until(lambda: self._kept(item_id) == kept, "the history to hold what was heard")
        check_heard(self._plan, kept, self._said(item_id), truncated["audio_end_ms"])
        await self._until("response.output_audio.delta")
        if self._plan.patient:
            check_answer(await self._answer(), ())

    async def tool_call(self) -> None:
        @function_tool
        def open_door(room: str) -> str:
            """Open the door of a room."""
            self._opened.append(room)
            return "The door is open."

        agent = RealtimeAgent(name="Janitor", instructions="Open doors.", tools=[open_door])
        await self._session.update_agent(agent)
        updated = await self._until("session.updated")
        assert [tool["name"] for tool in updated["session"]["tools"]] == ["open_door"]
        await self._session.send_message(self._plan.tool_request or "")
        await self._until("response.function_call_arguments.done")
        await self._until("response.done")
        await self._waiter.until(lambda: self._tool_outputs, "the tool's end")
        assert len(self._opened) == 1 and self._tool_outputs == ["The door is open."]
        check_answer(await self._answer(), ())

    async def clean_end(self) -> None:
        self._tasks[1].cancel()
        await self._session.close()
        await self._tasks[0]
        assert not self._errors, self._errors

    # What comes and goes. -------------------------------------------------------------------------------------------

    async def _give(self, pcm: bytes) -> None:
        await self._session.send_audio(pcm)

    async def _read(self) -> None:
        async for event in self._session:
            match event.type:
                case "audio":
                    self._audio_bytes += len(event.audio.data)
                case "audio_interrupted":
                    self._interrupted += 1
                case "tool_end":
                    self._tool_outputs.append(event.output)
                case "error":
                    self._errors.append(event.error)
                case "history_updated":
                    answers = [item for item in event.history if isinstance(item, AssistantMessageItem)]
                    self._history = {item.item_id: item for item in answers}
                case "history_added" if isinstance(event.item, AssistantMessageItem):
                    self._history[event.item.item_id] = event.item
                case "raw_model_event" if event.data.type == "raw_server_event":
                    self._raw.append(event.data.data)
                case "raw_model_event" if event.data.type == "exception":
                    self._errors.append((event.data.context, event.data.exception))
            self._waiter.wake()

    async def _until(self, kind: str) -> dict[str, Any]:
        def came() -> bool:
            while self._seen < len(self._raw):
                self._seen += 1
                event = self._raw[self._seen - 1]
                assert event["type"] != "error", event
                if event["type"] == kind:
                    return True
            return False

        await self._waiter.until(came, kind)
        return self._raw[self._seen - 1]

    async def _answer(self) -> str:
        """Wait for the answer to end, and for the session's history to hold it."""
        done = await self._until("response.done")
        assert done["response"]["status"] == "completed", done
        item_id = done["response"]["output"][0]["id"]
        await self._waiter.until(lambda: self._kept(item_id) == self._said(item_id), "the answer in the history")
        return self._kept(item_id)

    def _kept(self, item_id: str) -> str:
        item = self._history.get(item_id)
        parts = item.content if item is not None else []
        return "".join(part.transcript or "" for part in parts if part.type == "audio")

    def _said(self, item_id: str) -> str:
        deltas = [event for event in self._raw if event["type"] == "response.output_audio_transcript.delta"]
        return "".join(event["delta"] for event in deltas if event["item_id"] == item_id)


main(Program)
