"""The thinker of another server, as an engine stage.

    submit → task on the stage's own loop ─► text … ─► last delta with `finish`, or StageError
                  └ abort: the task is cancelled and its connection closed; nothing is emitted any more

It is not pausable. A remote server goes on generating (and billing) behind whatever is left unread, up to buffers of
unknown size, and its slot stays taken; so what comes is taken at once, the session bounds its text
(`pacing.text_chars_max`), and what is over the bound, or cut, closes the stream.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import aclosing
from dataclasses import dataclass

from duplex.engines import EngineError
from duplex.engines.openai_chat import ChatClient, ChatEnd, ChatError
from duplex.payloads import Job, JobId, Payload, Prompt, StageError, TextDelta
from duplex.stages.contract import ContextBound, Emit, NodeSpec, PackError, Progress, Role
from duplex_models.local import chat
from duplex_models.openai_chat.background import BackgroundLoop
from duplex_models.openai_chat.options import OpenAiChatOptions
from duplex_models.openai_chat.spoken import SpokenText

_NAMES_SHOWN = 8
_CLOSE_S = 5.0
_UNKNOWN = 2**31
"""Tokens of the server's whole context: it does not say, and what is too long it refuses in its own words."""


@dataclass(slots=True, kw_only=True)
class _Run:
    """One job from submission to its end. Changed only under the stage's lock."""

    job: Job
    prompt: Prompt
    emit: Emit
    task: Future[None] | None = None
    gone: bool = False
    """Aborted or ended: nothing more may be emitted."""


class RemoteThink:
    """Engine stage: `Prompt` → a stream of `TextDelta`. Camera frames are not sent.

    Raises:
        PackError: the key cannot be read.
    """

    def __init__(self, options: OpenAiChatOptions) -> None:
        self.spec = NodeSpec(
            name="thinker",
            role=Role.THINK,
            takes=Prompt,
            gives=TextDelta,
            unit="delta",
            batch_max=options.parallel,
            device="remote",
            pausable=False,
            step_s=0.03,
            steps_to_next=6,
            context=ContextBound(prompt_max=_UNKNOWN, history_max=options.history_tokens),
        )
        self._options = options
        self._client = ChatClient(options.chat())
        self._loop = BackgroundLoop("thinker")
        self._lock = threading.RLock()  # `emit` runs under it, and may call back
        self._runs: dict[JobId, _Run] = {}

    def load(self, progress: Progress) -> None:
        """Start the loop, and ask the server whether it is there and has the model.

        Raises:
            PackError: it is not, has not, or refuses the key.
        """
        options = self._options
        progress(f"thinker: {options.model} at {options.url}")
        self._loop.start()
        self._loop.submit(self._client.open()).result()
        if options.check:
            try:
                names = self._loop.submit(self._client.models()).result()
            except ChatError as error:
                raise PackError(f"the thinker cannot start: {error}") from error
            if names is not None and options.model not in names:
                shown = ", ".join(names[:_NAMES_SHOWN]) + (", …" if len(names) > _NAMES_SHOWN else "")
                raise PackError(
                    f"model.options.model: {options.url} has no {options.model}; it has {shown or 'none'} "
                    "(model.options.check = false starts without asking)"
                )

    def submit(self, job: Job, emit: Emit) -> None:
        """Start a job and return at once."""
        if not isinstance(job.payload, Prompt) or not any(m.text.strip() for m in job.payload.messages):
            emit(StageError(reason="the thinker takes a prompt with at least one message", kind="refused"))
            return
        if job.payload.reply_so_far:
            emit(
                StageError(
                    reason="the thinker cannot go on behind text: its server's replies are whole", kind="refused"
                )
            )
            return
        run = _Run(job=job, prompt=job.payload, emit=emit)
        with self._lock:
            self._runs[job.id] = run
            run.task = self._loop.submit(self._generate(run))

    def abort(self, job: JobId) -> None:
        """Close the job's stream; nothing is emitted for it any more."""
        with self._lock:
            run = self._runs.pop(job, None)
            if run is not None:
                _end(run)

    def pause(self, job: JobId) -> None:
        """Does nothing: the stage is not pausable, and says so."""

    def resume(self, job: JobId) -> None:
        """Does nothing, as `pause`."""

    def reorder(self, jobs: Sequence[JobId]) -> None:
        """Does nothing: the server has its own order."""

    def release(self, session: str) -> None:
        """Close the session's streams; nothing else is kept for it."""
        with self._lock:
            for job in [i for i, run in self._runs.items() if run.job.address.session == session]:
                self.abort(job)

    def close(self) -> None:
        """Close all streams and connections and end the loop."""
        with self._lock:
            for job in list(self._runs):
                self.abort(job)
        if self._loop.running:
            self._loop.submit(self._client.close()).result(_CLOSE_S)
            self._loop.stop()

    async def _generate(self, run: _Run) -> None:
        """Run a job to its end; the root of its task."""
        last: TextDelta | StageError
        try:
            last = await self._stream(run)
        except ChatError as error:
            last = StageError(reason=f"thinker: {error}", kind=error.kind)
        except EngineError as error:
            last = StageError(reason=f"thinker: {error}")
        except Exception as error:  # noqa: BLE001  the task's root: the reply fails with the reason, others go on
            last = StageError(reason=f"thinker: {type(error).__name__}")  # its text could hold the prompt
        with self._lock:
            self._runs.pop(run.job.id, None)
            self._emit(run, last)
            run.gone = True

    async def _stream(self, run: _Run) -> TextDelta | StageError:
        """Emit a reply's text and return its last output."""
        spoken, pieces, said = SpokenText(), 0, False
        tokens_max = run.prompt.tokens_max or self._options.reply_tokens_max
        async with aclosing(self._client.stream(self._messages(run.prompt), tokens_max)) as stream:
            async for piece in stream:
                if isinstance(piece, ChatEnd):
                    tail = spoken.finish()
                    left = max(0, (piece.completion_tokens or pieces) - pieces)
                    return _last(piece, tail, left, said=said or bool(tail))
                pieces += 1
                text = spoken.take(piece)
                if text:
                    said = True
                    self._emit(run, TextDelta(text=text, tokens=1))
        raise AssertionError("a stream ends with its end")

    def _messages(self, prompt: Prompt) -> list[dict[str, str]]:
        """Return the conversation as the request's messages."""
        messages = chat.with_system(prompt.messages, self._options.system_prompt)
        return [{"role": message.role, "content": message.text} for message in messages if message.text.strip()]

    def _emit(self, run: _Run, output: Payload | StageError) -> None:
        with self._lock:
            if not run.gone:
                run.emit(output)


def _end(run: _Run) -> None:
    """Make a run silent and close its stream."""
    run.gone = True
    if run.task is not None:
        run.task.cancel()


def _last(end: ChatEnd, text: str, tokens: int, *, said: bool) -> TextDelta | StageError:
    """Return the last output for the server's reason to finish.

    Args:
        text: what is still to be said.
        tokens: of the server's count, those that no delta has told.
        said: there were words.
    """
    match end.finish:
        case "length":
            finish = "length"
        case "content_filter":
            return StageError(reason="thinker: the server's content filter ended the reply", kind="refused")
        case "tool_calls" | "function_call" if not said:
            return StageError(reason="thinker: the model asked for a tool, and none is offered to it")
        case _:
            finish = "stop"
    return TextDelta(
        text=text, tokens=tokens, finish=finish, prompt_tokens=end.prompt_tokens, cached_tokens=end.cached_tokens
    )
