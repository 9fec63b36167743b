"""llama.cpp through xllamacpp: raw prompts in, a stream of tokens out, on slots that decode as one batch.

The library's server opens a port on loopback; it is locked with a random key, so that nothing but this process can ask
it, and every route that shows prompts is off. Source: llama.cpp's server documentation (completion, id_slot,
cache_prompt, n_probs).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xllamacpp

from duplex.engines import ContextOverflowError, EngineError

_OVERFLOW = "exceed_context_size_error"
_SILENT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaSettings:
    """How the model is loaded."""

    model: Path
    """A .gguf file."""
    slots: int
    """Requests that are decoded at once; each keeps its own prefix."""
    context: int
    """Tokens of context per slot."""
    threads: int
    """Threads of one decoding step."""
    prompt_threads: int
    """Threads that read a prompt."""
    prompt_step: int
    """Tokens of prompts that are read in one step; between two of them, others' replies go on by a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How the next token is chosen."""

    temperature: float = 0.0
    """0 takes the most probable token."""
    loop_penalty: float = 0.0
    """Strength of the penalty (DRY) on going on with a sequence that was written before; 0 is off."""
    loop_tokens: int = 8
    """Tokens that may repeat before the penalty begins; it grows with every further one."""
    loop_window: int = 100
    """Tokens back in which a sequence counts as written before."""
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaToken:
    """What one decoding step gave."""

    text: str
    """One or more whole characters."""
    ids: tuple[int, ...]
    """Token ids behind `text`, by which the same prefix can be asked for again without a new tokenization. Empty where
    the text is not plain ASCII: of a character made of several tokens the library tells only the last one."""
    prompt_tokens: int | None = None
    """Of the request's prompt; None where the library does not say."""
    cached_tokens: int = 0
    """Of those, what was still in the slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaEnd:
    """How a request ended."""

    finish: str
    """`stop` (end of text or a stop string), `length` (the bound), or a callback said so: `abort`, or `unread` where it was
    before the prompt was read."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Of the prompt's tokens, those that were still in the slot; both 0 after an abort."""


class LlamaModel:
    """A model and its slots. `complete` may be called from as many threads as there are slots.

    Raises:
        EngineError: the model cannot be loaded.
    """

    def __init__(self, settings: LlamaSettings) -> None:
        params = xllamacpp.CommonParams()
        params.model.path = str(settings.model)
        params.n_ctx = settings.context * settings.slots
        params.n_parallel = settings.slots
        params.n_batch = params.n_ubatch = max(settings.prompt_step, settings.slots)
        params.n_gpu_layers = 0
        params.cpuparams.n_threads = settings.threads
        params.cpuparams_batch.n_threads = settings.prompt_threads
        params.cache_ram_mib = 0  # the slots are the cache: bounded, and pinned by the caller
        params.cache_idle_slots = False
        params.fit_params = False
        params.verbosity = _SILENT
        params.hostnames = ["127.0.0.1"]
        params.api_keys = [secrets.token_hex(32)]
        params.endpoint_slots = False
        params.ui = False
        params.n_threads_http = 1
        try:
            self._server: Any = xllamacpp.Server(params)
        except RuntimeError as error:
            raise EngineError(f"{settings.model.name} cannot be loaded: {error}") from error

    def complete(
        self,
        prompt: Sequence[str | int],
        *,
        slot: int,
        tokens_max: int,
        sampling: Sampling,
        on_token: Callable[[LlamaToken], bool],
        on_read: Callable[[], bool] = lambda: False,
        stop: Sequence[str] = (),
        grammar: str | None = None,
    ) -> LlamaEnd:
        """Generate behind a raw prompt; blocks its thread until the end.

        Args:
            prompt: texts and token ids, joined in order; special tokens written in texts count as such.
            slot: which slot's cached prefix is reused and replaced.
            tokens_max: bound on generated tokens; one is generated in any case.
            on_token: called for every token, on this thread; returning True ends generation before the next token.
            on_read: called after every step of reading the prompt, on this thread; returning True ends the request there.
            stop: texts that end generation; they are not given out.
            grammar: what may be written, in llama.cpp's notation or of `json_grammar`; None: anything.
        Raises:
            ContextOverflowError: the prompt does not fit into a slot.
            EngineError: the request was refused, or the engine failed.
        """
        stream = _Stream(on_token, on_read)
        request = {
            "prompt": list(prompt),
            "n_predict": tokens_max,
            "id_slot": slot,
            "cache_prompt": True,
            "stream": True,
            "return_progress": True,
            "logprobs": 1,  # the only way to get token ids out of the stream
            "timings_per_token": True,  # the only way to get the prompt's tokens before the end
            "temperature": sampling.temperature,
            "dry_multiplier": sampling.loop_penalty,
            "dry_allowed_length": sampling.loop_tokens,
            "dry_penalty_last_n": sampling.loop_window,
            "dry_sequence_breakers": ["\n"],
            "seed": sampling.seed,
            "stop": list(stop),
        }
        if grammar is not None:
            request["grammar"] = grammar
        try:
            self._server.handle_completions(request, stream)
        except RuntimeError as error:
            raise EngineError(str(error)) from error
        return stream.end()

    def close(self) -> None:
        """Stop the engine and give its memory back; running requests end first."""
        self._server = None


def json_grammar(schema: Mapping[str, Any]) -> str:
    """Return the grammar of what a JSON schema allows.

    Raises:
        EngineError: it is no schema.
    """
    try:
        grammar: str = xllamacpp.json_schema_to_grammar(json.dumps(schema))
    except RuntimeError as error:
        raise EngineError(f"a tool's schema cannot be kept: {error}") from error
    return grammar


class _Stream:
    """The callback handed to the library: takes its JSON apart, and remembers how the request ended."""

    def __init__(self, on_token: Callable[[LlamaToken], bool], on_read: Callable[[], bool]) -> None:
        self._on_token = on_token
        self._on_read = on_read
        self._read = False
        self._end: LlamaEnd | None = None
        self._failure: Exception | None = None
        self._aborted = False

    def __call__(self, chunk: dict[str, Any] | list[dict[str, Any]]) -> bool:
        if self._aborted:
            return True
        try:
            for part in chunk if isinstance(chunk, list) else [chunk]:
                if self._take(part):
                    self._aborted = True
                    return True
        except Exception as error:  # noqa: BLE001  the library would swallow it; `end` raises it
            self._failure = error
            self._aborted = True
        return self._aborted

    def _take(self, part: dict[str, Any]) -> bool:
        if "error" in part:
            message = str(part["error"].get("message", part["error"]))
            overflow = part["error"].get("type") == _OVERFLOW
            raise ContextOverflowError(message) if overflow else EngineError(message)
        if "prompt_progress" in part:
            return self._on_read()
        self._read = True
        choice = part["choices"][0]
        content = (choice.get("logprobs") or {}).get("content") or []
        ids = tuple(int(c["id"]) for c in content) if choice["text"].isascii() else ()
        timings = part.get("timings") or {}
        cached = timings.get("cache_n", 0)
        read = cached + timings["prompt_n"] if "prompt_n" in timings else None
        token = LlamaToken(text=choice["text"], ids=ids, prompt_tokens=read, cached_tokens=cached)
        stop = bool(token.text or ids) and self._on_token(token)
        if choice["finish_reason"] is not None:
            usage = part.get("usage") or {}
            self._end = LlamaEnd(
                finish="length" if choice["finish_reason"] == "length" else "stop",
                prompt_tokens=usage.get("prompt_tokens", 0),
                cached_tokens=usage.get("prompt_tokens_details", {}).get("cached_tokens", 0),
            )
        return stop

    def end(self) -> LlamaEnd:
        if self._failure is not None:
            raise self._failure
        if self._end is not None:
            return self._end
        if self._aborted:
            return LlamaEnd(finish="abort" if self._read else "unread")
        raise EngineError("llama.cpp ended a request without saying why")
