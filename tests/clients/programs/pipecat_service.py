"""The package pipecat-ai: its OpenAIRealtimeLLMService in a pipeline with a context and a loudspeaker."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from loguru import logger
from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.frames.frames import (
    BotStoppedSpeakingFrame,
    EndFrame,
    ErrorFrame,
    Frame,
    InputAudioRawFrame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    LLMRunFrame,
    LLMSetToolsFrame,
    OutputAudioRawFrame,
    StartFrame,
    TranscriptionFrame,
    TTSTextFrame,
    UserStartedSpeakingFrame,
)
from pipecat.observers.base_observer import BaseObserver, FramePushed
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.services.llm_service import FunctionCallParams
from pipecat.services.openai.realtime.events import (
    ConversationItem,
    ConversationItemCreateEvent,
    ItemContent,
    ResponseCreateEvent,
    SessionProperties,
)
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.transports.base_output import BaseOutputTransport
from pipecat.transports.base_transport import TransportParams
from pipecat.workers.runner import WorkerRunner
from steps import MOMENT_S, RATE, Microphone, Plan, Waiter, check_answer, check_heard, main

OPEN_DOOR = FunctionSchema(
    name="open_door",
    description="Open the door of a room.",
    properties={"room": {"type": "string"}},
    required=["room"],
)


class Loudspeaker(BaseOutputTransport):
    """Plays at real time."""

    async def start(self, frame: StartFrame) -> None:
        await super().start(frame)
        await self.set_transport_ready(frame)

    async def write_audio_frame(self, frame: OutputAudioRawFrame) -> bool:
        await asyncio.sleep(frame.num_frames / frame.sample_rate)
        return True


class Program(BaseObserver):
    """A bot of one pipeline, and an observer of what it does."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._plan = plan
        self._waiter = Waiter()
        self._microphone = Microphone(self._give)
        self._tasks: list[asyncio.Task[None]] = []
        self._context = LLMContext([{"role": "user", "content": plan.text}])
        self._llm = OpenAIRealtimeLLMService(
            api_key=plan.key,
            base_url=f"{plan.ws_url}/v1/realtime",
            settings=OpenAIRealtimeLLMService.Settings(
                session_properties=SessionProperties(instructions="Answer in one sentence.")
            ),
        )
        self._llm.register_function("open_door", self._open_door)
        self._llm.add_event_handler("on_conversation_item_created", self._take_item)
        self._opened: list[Any] = []
        self._tools_are_sent = False
        self._items: list[Any] = []
        self._seen: set[int] = set()
        self._frames: list[Frame] = []
        """Each frame once, in the order in which it was first pushed."""
        users, bots = LLMContextAggregatorPair(self._context)
        params = TransportParams(audio_out_enabled=True, audio_out_sample_rate=RATE, audio_out_auto_silence=False)
        self._worker = PipelineWorker(
            Pipeline([users, self._llm, Loudspeaker(params), bots]),
            params=PipelineParams(audio_in_sample_rate=RATE, audio_out_sample_rate=RATE),
            observers=[self],
            enable_rtvi=False,
        )

    async def connect(self) -> None:
        ready = asyncio.Event()

        @self._worker.event_handler("on_pipeline_started")
        async def started(worker: PipelineWorker, frame: Frame) -> None:
            ready.set()

        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(self._worker)
        self._tasks.append(asyncio.create_task(runner.run()))
        await ready.wait()
        assert self._llm._websocket is not None, "the service is not connected"
        self._tasks.append(asyncio.create_task(self._microphone.run()))

    async def text_turn(self) -> None:
        """The session is configured with the first run of the context: its items, its session, its response."""
        await self._worker.queue_frame(LLMRunFrame())
        check_answer(await self._answer(0), self._plan.text_answers)
        await self._waiter.until(lambda: self._roles() == ["user", "assistant"], "the turn in the context")

    async def voice_turn(self) -> None:
        began = len(self._frames)
        self._microphone.say(self._plan.question)
        check_answer(await self._answer(began), self._plan.answers)
        (transcribed,) = self._of(TranscriptionFrame, began)
        said = [m["content"] for m in self._context.get_messages() if m["role"] == "user"]
        assert said[-1] == transcribed.text

    async def barge_in(self) -> None:
        began, items = len(self._frames), len(self._items)
        await self._ask(self._plan.story)
        await self._waiter.until(lambda: self._of(OutputAudioRawFrame, began), "audio")
        await asyncio.sleep(MOMENT_S)
        self._microphone.say(self._plan.interruption)
        await self._waiter.until(lambda: self._of(UserStartedSpeakingFrame, began), "the user's onset")
        await self._waiter.until(lambda: self._of(InterruptionFrame, began), "the interruption")
        said = "".join(frame.text for frame in self._of(TTSTextFrame, began))
        answers = [item for item in self._items[items:] if item.role == "assistant"]
        after = len(self._frames)
        await self._waiter.until(lambda: self._of(TTSTextFrame, after), "an answer to the interruption")
        if self._plan.patient:
            await self._answer(after)
        kept = await self._llm.retrieve_conversation_item(answers[0].id)
        check_heard(self._plan, kept.content[0].transcript, said, None)

    async def tool_call(self) -> None:
        began = len(self._frames)
        await self._worker.queue_frame(LLMSetToolsFrame(tools=ToolsSchema(standard_tools=[OPEN_DOOR])))
        await self._waiter.until(lambda: self._tools_are_sent, "the service to offer the tool")
        await self._ask(self._plan.tool_request or "")
        await self._waiter.until(lambda: self._opened, "the tool call")
        assert len(self._opened) == 1 and "room" in self._opened[0]
        check_answer(await self._answer(began), ())
        assert "tool" in self._roles()

    async def clean_end(self) -> None:
        self._tasks[1].cancel()
        await self._worker.queue_frame(EndFrame())
        await self._tasks[0]
        errors = [frame.error for frame in self._of(ErrorFrame, 0)]
        assert not errors, errors

    # What comes and goes. -------------------------------------------------------------------------------------------

    async def on_push_frame(self, data: FramePushed) -> None:
        if data.source is self._llm and isinstance(data.frame, LLMSetToolsFrame):
            self._tools_are_sent = True
            self._waiter.wake()
        if data.frame.id not in self._seen:
            self._seen.add(data.frame.id)
            self._frames.append(data.frame)
            self._waiter.wake()

    async def _give(self, pcm: bytes) -> None:
        await self._worker.queue_frame(InputAudioRawFrame(audio=pcm, sample_rate=RATE, num_channels=1))

    async def _take_item(self, _: OpenAIRealtimeLLMService, item_id: str, item: Any) -> None:
        self._items.append(item)
        self._waiter.wake()

    async def _open_door(self, params: FunctionCallParams) -> None:
        self._opened.append(params.arguments)
        self._waiter.wake()
        await params.result_callback({"open": True})

    async def _ask(self, text: str) -> None:
        """Write a turn. The service's own way, LLMMessagesAppendFrame, writes what users say as the system's words."""
        item = ConversationItem(type="message", role="user", content=[ItemContent(type="input_text", text=text)])
        await self._llm.send_client_event(ConversationItemCreateEvent(item=item))
        await self._llm.send_client_event(ResponseCreateEvent())

    def _roles(self) -> list[str]:
        return [message["role"] for message in self._context.get_messages()]

    def _of(self, kind: type[Frame], since: int) -> list[Any]:
        return [frame for frame in self._frames[since:] if isinstance(frame, kind)]

    async def _answer(self, since: int) -> str:
        """Wait for an answer with words to end, and to be played to its end."""
        await self._waiter.until(lambda: self._of(TTSTextFrame, since), "an answer's words")
        at = next(i for i, frame in enumerate(self._frames) if i >= since and isinstance(frame, TTSTextFrame))
        await self._waiter.until(lambda: self._of(LLMFullResponseEndFrame, at), "the answer's end")
        await self._waiter.until(lambda: self._of(BotStoppedSpeakingFrame, at), "the end of its sound")
        return "".join(frame.text for frame in self._of(TTSTextFrame, at))


logger.remove()
logger.add(sys.stderr, level="WARNING")
main(Program, ("connect", "text turn", "voice turn", "barge-in", "tool call", "clean end"))
