"""Function calls of the local thinker: the model decides within a choice that the engine holds it to.

    auto                 which? ──► none: the reply is words
                           └──────► a name ──► arguments, held to the function's schema
    required, a name     without the answer `none`, or without the question

It has a slot of the engine of its own, so that the conversations' cached prefixes stay; one call is made at a time.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

from duplex.engines import EngineError
from duplex.engines.llama import LlamaEnd, LlamaModel, LlamaToken, Sampling, json_grammar
from duplex.payloads import Message, Prompt, Tool
from duplex_models.local import tools

_SAMPLING = Sampling()
_NAME_TOKENS_MAX = 64


class Caller:
    """Makes the calls of all sessions of one model.

    Args:
        model: the engine.
        slot: its own.
        context_tokens: of a slot.
        tokens_max: of a call's arguments.
    """

    def __init__(self, model: LlamaModel, slot: int, context_tokens: int, tokens_max: int) -> None:
        self._model = model
        self._slot = slot
        self._prompt_max = context_tokens - max(tokens_max, _NAME_TOKENS_MAX)
        self._tokens_max = tokens_max
        self._lock = threading.Lock()

    def choose(self, prompt: Prompt, messages: tuple[Message, ...], on_read: Callable[[], bool]) -> Tool | None:
        """Return what this reply calls; None: nothing, it is words. Blocks its thread.

        Args:
            prompt: tells what may be called.
            messages: what the model is asked over.
            on_read: called now and then while the model reads; returning True ends it, and nothing is called.
        Raises:
            EngineError: the tools do not fit into the model's context, or the engine failed.
        """
        offered, forced = prompt.toolset.callable, prompt.toolset.choice in ("required", "named")
        request = tools.last_request(messages) if forced else tools.request_of(messages)
        if not offered or request is None:
            return None
        if forced and len(offered) == 1:
            return offered[0]
        asked = tools.which_prompt(offered, request, self._prompt_max)
        if asked is None:
            raise EngineError("the tools are longer than the model's context")
        names = [tool.name for tool in offered] + ([] if forced else [tools.NONE])
        grammar = "root ::= " + " | ".join(f'"{name}"' for name in names)
        written: list[str] = []

        def take(token: LlamaToken) -> bool:
            written.append(token.text)
            return False

        self._complete(asked, _NAME_TOKENS_MAX, grammar, take, on_read)
        return next((tool for tool in offered if tool.name == "".join(written)), None)

    def arguments(
        self,
        tool: Tool,
        messages: tuple[Message, ...],
        tokens_max: int | None,
        on_token: Callable[[LlamaToken], bool],
        on_read: Callable[[], bool],
    ) -> LlamaEnd:
        """Write the arguments of a call; blocks its thread until the end.

        Args:
            tokens_max: bound by the client; None: there is none but the configured one.
            on_token: called for each piece; returning True ends it.
            on_read: the same, while the model reads.
        Raises:
            EngineError: the schema is not one that the engine can hold the model to, or the engine failed.
        """
        schema = tools.kept(json.loads(tool.parameters))
        asked = tools.arguments_prompt(tool, tools.last_request(messages))
        bound = self._tokens_max if tokens_max is None else min(tokens_max, self._tokens_max)
        return self._complete(asked, bound, json_grammar(schema), on_token, on_read)

    def _complete(
        self,
        prompt: str,
        tokens_max: int,
        grammar: str,
        on_token: Callable[[LlamaToken], bool],
        on_read: Callable[[], bool],
    ) -> LlamaEnd:
        with self._lock:
            return self._model.complete(
                [prompt], slot=self._slot, tokens_max=tokens_max, sampling=_SAMPLING, on_token=on_token, on_read=on_read,
                grammar=grammar,
            )  # fmt: skip
