"""The thinker on llama.cpp, as an engine stage: SmolLM2-135M-Instruct, or Qwen2.5-Coder-1.5B-Instruct.

The first is a stand-in that keeps the chain honest: short facts are mostly right, longer answers ramble, and it forgets. Each
conversation is pinned to a slot whose cache holds its prefix, so a turn reads only what is new, and a prefill reads
part of that before. A slot cannot be paused; `pause` stops it before the next token, and `resume` asks again for prompt and
tokens so far, which the cache still holds.

    submit → queued → running ⇄ paused (holds no thread and no slot)
                         └→ last delta with `finish`, or StageError; an abort ends it silently from any state
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from duplex.engines import ContextOverflowError, EngineError
from duplex.engines.llama import LlamaEnd, LlamaModel, LlamaSettings, LlamaToken, Sampling
from duplex.payloads import Alive, CallDelta, Job, JobId, Message, Payload, Prompt, StageError, TextDelta, Tool
from duplex.session.context import estimate_tokens
from duplex.session.tools import is_object
from duplex.stages.contract import ContextBound, Emit, NodeSpec, Progress, Role
from duplex_models.local import chat, weights
from duplex_models.local.assembly import QWEN, assembled, cache_folder
from duplex_models.local.caller import Caller
from duplex_models.local.options import LocalOptions, ThinkerName
from duplex_models.local.slots import SlotTable
from duplex_models.local.starting import starting

_KV_BYTES_PER_TOKEN: dict[ThinkerName, int] = {  # layers × (key, value) × heads × width × float16
    "smollm2-135m": 30 * 2 * 3 * 64 * 2,
    "qwen2.5-coder-1.5b": 28 * 2 * 2 * 128 * 2,
}
_TOKEN_S: dict[ThinkerName, float] = {"smollm2-135m": 0.02, "qwen2.5-coder-1.5b": 0.055}
_LOOP_PENALTY = 0.8
"""Breaks loops inside a reply. Shorter sequences stay free: a question asked twice has the same right answer twice."""
_STOP = (chat.START, chat.END)


@dataclass(slots=True, kw_only=True)
class _Run:
    """One job from submission to its end. Changed only under the stage's lock."""

    job: Job
    asked: Prompt
    emit: Emit
    messages: tuple[Message, ...]
    said_before: str
    tokens_left: int
    spoken: bool = False
    """It was decided that this reply calls nothing."""
    skip_space: bool
    """The next text continues behind white space that the prompt could not end with."""
    texts: list[str] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    exact: bool = True
    """`ids` are all the tokens of `texts`."""
    held: bool = False
    """Paused, or about to be."""
    running: bool = False
    gone: bool = False
    """Aborted or ended: nothing more may be emitted."""
    told: bool = False
    """A delta was emitted, and with it the tokens of the prompt."""

    @property
    def text(self) -> str:
        """What the engine has of it once all tokens so far are in its cache."""
        return chat.render(self.messages, self.said_before) + "".join(self.texts)

    def prompt(self) -> list[str | int]:
        """What the engine is to continue: by token ids where they are known, so that no word is split differently."""
        if self.exact:
            return [chat.render(self.messages, self.said_before), *self.ids]
        return [chat.render(self.messages, self.said_before + "".join(self.texts))]


class Think:
    """Engine stage: `Prompt` → a stream of `TextDelta`, or a `CallDelta`s' one."""

    def __init__(self, options: LocalOptions) -> None:
        self.spec = NodeSpec(
            name="thinker",
            role=Role.THINK,
            takes=Prompt,
            gives=TextDelta,
            unit="token",
            batch_max=options.sessions,
            bytes_per_session=options.context_tokens * _KV_BYTES_PER_TOKEN[options.thinker],
            cut_ms=int(1000 * _TOKEN_S[options.thinker]) + 5,
            pausable=True,
            prefills=True,
            calls=options.tools,
            step_s=_TOKEN_S[options.thinker],
            steps_to_next=6,
            context=ContextBound(
                prompt_max=options.context_tokens
                - min(options.reply_tokens_max, options.context_tokens // 2)
                - estimate_tokens(options.system_prompt),
                history_max=options.history_tokens,
            ),
        )
        self._options = options
        self._sampling = Sampling(temperature=options.temperature, loop_penalty=_LOOP_PENALTY)
        self._model: LlamaModel | None = None
        self._caller: Caller | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._slots = SlotTable(options.sessions)
        self._cached = [""] * options.sessions
        """What each slot has read, as text; its thread alone changes it."""
        self._runs: dict[JobId, _Run] = {}  # in the order in which they get slots

    def load(self, progress: Progress) -> None:
        """Load the model and read the default system prompt into every slot.

        Raises:
            PackError: the weights are missing or damaged, or the engine cannot start.
        """
        progress(f"thinker: {self._options.thinker}")
        options = self._options
        settings = LlamaSettings(
            model=_weights(options, progress),
            slots=options.sessions + options.tools,
            context=options.context_tokens,
            threads=options.thinker_threads,
            prompt_threads=options.prompt_threads,
            prompt_step=options.prompt_step_tokens,
        )
        self._threads = ThreadPoolExecutor(options.sessions, thread_name_prefix="thinker")
        with starting("the thinker"):
            self._model = LlamaModel(settings)
            list(self._threads.map(self._warm, range(options.sessions)))
        self._caller = Caller(self._model, options.sessions, options.context_tokens, options.tool_tokens_max)

    def _warm(self, slot: int) -> None:
        assert self._model is not None, "called by load"
        prefix = chat.render(chat.with_system((), self._options.system_prompt))
        self._model.complete([prefix], slot=slot, tokens_max=1, sampling=self._sampling, on_token=lambda token: True)
        self._cached[slot] = prefix

    def submit(self, job: Job, emit: Emit) -> None:
        """Start a job and return at once; it waits while its conversation's slot, or every slot, is busy."""
        if not isinstance(job.payload, Prompt) or not any(m.text.strip() for m in job.payload.messages):
            emit(StageError(reason="the thinker takes a prompt with at least one message", kind="refused"))
            return
        prompt, options = job.payload, self._options
        tokens_max = min(prompt.tokens_max or options.reply_tokens_max, options.context_tokens // 2)
        run = _Run(
            job=job,
            asked=prompt,
            emit=emit,
            messages=chat.with_results(chat.with_system(prompt.messages, options.system_prompt)),
            said_before=prompt.reply_so_far,
            tokens_left=tokens_max,
            skip_space=prompt.reply_so_far[-1:].isspace(),
        )
        with self._lock:
            self._runs[job.id] = run
            self._dispatch()

    def abort(self, job: JobId) -> None:
        """End a job before its next token or part of its prompt; nothing is emitted for it any more."""
        with self._lock:
            run = self._runs.pop(job, None)
            if run is not None:
                run.gone = True

    def pause(self, job: JobId) -> None:
        """Stop a job before its next token or part of its prompt, and give its thread back."""
        with self._lock:
            if job in self._runs:
                self._runs[job].held = True

    def resume(self, job: JobId) -> None:
        """Go on behind the last token that was emitted."""
        with self._lock:
            if job in self._runs:
                self._runs[job].held = False
                self._dispatch()

    def reorder(self, jobs: Sequence[JobId]) -> None:
        """Give the next free slots in this order; slots in use decode as one batch, where nothing can be preferred."""
        with self._lock:
            listed = {job: self._runs[job] for job in jobs if job in self._runs}
            self._runs = listed | {job: run for job, run in self._runs.items() if job not in listed}

    def release(self, session: str) -> None:
        """End the session's jobs and unpin its slots."""
        with self._lock:
            for job in [i for i, run in self._runs.items() if run.job.address.session == session]:
                self._runs.pop(job).gone = True
            self._slots.forget(session)

    def close(self) -> None:
        """End all jobs, wait for the step in flight, and give the model back."""
        with self._lock:
            for run in self._runs.values():
                run.gone = True
            self._runs.clear()
        if self._threads is not None:
            self._threads.shutdown()
        if self._model is not None:
            self._model.close()

    def _dispatch(self) -> None:
        """Start every waiting run that can have a slot. Called with the lock held."""
        assert self._threads is not None, "loaded before the first job"
        for run in self._runs.values():
            if run.running or run.held:
                continue
            slot = self._slots.acquire((run.job.address.session, run.job.address.lane))
            if slot is not None:
                run.running = True
                self._threads.submit(self._generate, run, slot)

    def _generate(self, run: _Run, slot: int) -> None:
        """Run a job until it ends, is paused or aborted; the root of its thread."""
        outcome: LlamaEnd | StageError
        try:
            outcome = self._read_ahead(run, slot) if run.asked.prefill else self._answer(run, slot)
        except EngineError as error:
            outcome = StageError(reason=f"thinker: {error}")
        except MemoryError:
            outcome = StageError(reason="thinker: out of memory", kind="memory")
        except Exception as error:  # noqa: BLE001  the thread's root: the reply fails with the reason, others go on
            outcome = StageError(reason=f"thinker: {error!r}")
        with self._lock:
            run.running = False
            self._slots.give_back(slot)
            ended = not run.gone and not (isinstance(outcome, LlamaEnd) and outcome.finish in ("abort", "unread"))
            if ended:
                run.gone = True
                self._runs.pop(run.job.id, None)
            self._dispatch()
        if ended:
            last = outcome if isinstance(outcome, StageError) else TextDelta(text="", tokens=0, finish=outcome.finish)
            run.emit(last)

    def _answer(self, run: _Run, slot: int) -> LlamaEnd:
        """Make a reply: a function call, or words."""
        assert self._caller is not None, "loaded before the first job"
        prompt = run.asked
        if prompt.toolset.callable and not run.spoken and not run.said_before:
            tool = self._caller.choose(prompt, prompt.messages, lambda: not self._emit(run, Alive()))
            if tool is not None:
                return self._call(run, tool)
            run.spoken = True
        return self._complete(run, slot)

    def _call(self, run: _Run, tool: Tool) -> LlamaEnd:
        """Write a call's arguments. A pause does not stop it: it is short, and nobody hears it."""
        assert self._caller is not None, "loaded before the first job"

        written: list[str] = []

        def take(token: LlamaToken) -> bool:
            written.append(token.text)
            delta = CallDelta(index=0, name=tool.name, arguments=token.text, tokens=max(1, len(token.ids)))
            return not self._emit(run, delta)

        end = self._caller.arguments(
            tool, run.asked.messages, run.asked.tokens_max, take, lambda: not self._emit(run, Alive())
        )
        if end.finish == "stop":
            if not is_object("".join(written)):
                raise EngineError(f"the engine cannot keep to the schema of {tool.name}")
            self._emit(run, CallDelta(index=0, name=tool.name, arguments="", tokens=0, last=True))
        return end

    def _emit(self, run: _Run, output: Payload) -> bool:
        """Emit an output of a call; return False if the job was aborted before it."""
        with self._lock:
            if run.gone:
                return False
        run.emit(output)
        return True

    def _complete(self, run: _Run, slot: int) -> LlamaEnd:
        """Ask the engine; where its own count of tokens says that the prompt is too long, with the end of it alone."""
        assert self._model is not None, "loaded before the first job"
        for attempt in (run.messages, chat.last_turn(run.messages, self._options.context_tokens // 2)):
            run.messages = attempt
            try:
                end = self._model.complete(
                    run.prompt(),
                    slot=slot,
                    tokens_max=run.tokens_left,
                    sampling=self._sampling,
                    on_token=lambda token: self._take(run, token),
                    on_read=lambda: self._reading(run),
                    stop=_STOP,
                )
                if end.finish != "unread":
                    self._cached[slot] = run.text
                return end
            except ContextOverflowError as error:
                overflow = error
        raise EngineError(f"the instructions are longer than the model's context: {overflow}") from overflow

    def _read_ahead(self, run: _Run, slot: int) -> LlamaEnd:
        """Read a prompt into the slot step by step, until it is read or something else is to be done."""
        assert self._model is not None, "loaded before the first job"
        for text in chat.steps(chat.render_open(run.messages), self._cached[slot], self._options.prefill_tokens):
            if self._reading(run):
                return LlamaEnd(finish="abort")
            self._model.complete([text], slot=slot, tokens_max=1, sampling=self._sampling, on_token=lambda token: False)
            self._cached[slot] = text
        return LlamaEnd(finish="read")

    def _reading(self, run: _Run) -> bool:
        """Say that a part of the prompt is read, unless the job was paused or aborted; returns whether to stop."""
        with self._lock:
            if run.gone or run.held:
                return True
        run.emit(Alive())
        return False

    def _take(self, run: _Run, token: LlamaToken) -> bool:
        """Emit one token, unless the job was paused or aborted before it; returns whether to stop."""
        with self._lock:
            if run.gone or run.held:
                return True
            run.texts.append(token.text)
            run.ids.extend(token.ids)
            run.exact = run.exact and bool(token.ids)
            run.tokens_left -= max(1, len(token.ids))
            text = token.text.lstrip() if run.skip_space else token.text
            run.skip_space = run.skip_space and not text
            read = None if run.told else token.prompt_tokens
            run.told = run.told or bool(text)
        if text:
            tokens = max(1, len(token.ids))
            run.emit(TextDelta(text=text, tokens=tokens, prompt_tokens=read, cached_tokens=token.cached_tokens))
        return False


def _weights(options: LocalOptions, progress: Progress) -> Path:
    """Return the thinker's file."""
    if options.thinker == "smollm2-135m":
        return weights.verified(weights.SMOLLM2)
    return assembled(QWEN, cache_folder(options.cache_dir), progress) / QWEN.files[0].name
