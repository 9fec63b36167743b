"""A conversation longer than the thinker's bound, with real weights: it goes on, and its prefix stays in the cache."""

from __future__ import annotations

from typing import Any

import pytest

from duplex.engines.llama import LlamaEnd
from duplex.payloads import Prompt
from duplex.session.context import ContextWindow
from duplex.session.conversation import Conversation, Item
from loadgen.jobs import job
from tests.model.harness import Answer
from tests.speech import facts

pytestmark = pytest.mark.model
ROOM = 240
INSTRUCTIONS = "You are a voice assistant called Anna. Answer in one short sentence."


def test_c58_past_the_bound_each_turn_is_answered_and_only_a_step_reads_the_prompt_anew(
    think: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[LlamaEnd] = []
    complete = think._model.complete

    def watched(*args: Any, **kwargs: Any) -> LlamaEnd:
        ends.append(complete(*args, **kwargs))
        return ends[-1]

    monkeypatch.setattr(think._model, "complete", watched)
    conversation, window = Conversation(1000), ContextWindow(think.spec.context, ROOM, 0.25)
    asks = [*(fact.ask for fact in facts()), "What is your name?"]
    steps: list[int] = []
    answer = Answer()
    for n, ask in enumerate(asks):
        conversation.add(Item(id=f"u{n}", role="user", modality="text", text=ask))
        messages = window.messages(conversation.items(), INSTRUCTIONS)
        if window.step(conversation.items(), INSTRUCTIONS) is not None:
            steps.append(n)
        answer = Answer()
        think.submit(job(Prompt(messages=messages, tokens_max=10), "long"), answer.emit)
        assert answer.wait().text
        assert not answer.errors
        conversation.add(Item(id=f"a{n}", role="assistant", modality="text", text=answer.text))
    think.release("long")
    assert 1 <= len(steps) <= len(asks) // 4
    anew = [n for n in range(1, len(asks)) if ends[n].cached_tokens < ends[n - 1].prompt_tokens]
    assert anew == steps
    assert "Anna" in answer.text  # what the instructions say is still known
