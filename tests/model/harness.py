"""What stages are given, and what a thinker answers."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from duplex.payloads import Alive, Int16Array, Message, Payload, Prompt, StageError, TextDelta, Utterance
from duplex.units import Samples, Span

CEILING_S = 30.0


def utterance(pcm: Int16Array) -> Utterance:
    """Return audio at 16 kHz as an utterance."""
    return Utterance(span=Span(Samples(0), Samples(len(pcm) * 3)), pcm=pcm)


@dataclass
class Answer:
    """What a thinker emitted for one job, as it comes in."""

    deltas: list[TextDelta] = field(default_factory=list)
    errors: list[StageError] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    on_delta: Callable[[int], None] = lambda count: None
    """Called with the number of deltas after each one, on the engine's thread."""
    alive: int = 0
    on_alive: Callable[[int], None] = lambda count: None
    """Called with the number of signs of life after each one, on the engine's thread."""

    def emit(self, output: Payload | StageError) -> None:
        assert not self.ended.is_set(), "nothing follows the last output"
        if isinstance(output, StageError):
            self.errors.append(output)
            self.ended.set()
            return
        if isinstance(output, Alive):
            self.alive += 1
            self.on_alive(self.alive)
            return
        assert isinstance(output, TextDelta)
        self.deltas.append(output)
        if output.finish is not None:
            self.ended.set()
        self.on_delta(len(self.deltas))

    def wait(self) -> Answer:
        assert self.ended.wait(CEILING_S), "the thinker did not end"
        return self

    @property
    def text(self) -> str:
        return "".join(delta.text for delta in self.deltas)


def prompt(*texts: str, **more: Any) -> Prompt:
    """Return a conversation in which user and assistant take turns, the user first."""
    roles = itertools.cycle(("user", "assistant"))
    return Prompt(
        messages=tuple(Message(role=role, text=text) for role, text in zip(roles, texts, strict=False)), **more
    )
