"""What a long conversation costs the thinker: reading and decoding attend to all that was said before."""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass

from loadgen.calibrate.material import question
from loadgen.calibrate.stages import Stages, Timing, conversation

_SHORT = 8
"""Words of a short context, and of what is read behind it."""
_TOKENS = 10
_SESSION = "context"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCost:
    """Microseconds; see `Thinker`."""

    read_us: float
    step_us: float


def measure_context(
    stages: Stages, words: int, times: int, tokens_per_word: float, turn_tokens: int, rng: random.Random
) -> ContextCost:
    """Ask the same kind of question behind a short and behind a long context, both cached.

    Args:
        words: of the long one, > 8.
        times: pairs of questions; their median counts.
        tokens_per_word, turn_tokens: as in the profile.
    """
    more = (words - _SHORT) * tokens_per_word
    read = _SHORT * tokens_per_word + turn_tokens
    reads, steps = [], []
    for _ in range(times):
        short_first, short_step = _ask(stages, _SHORT, rng)
        long_first, long_step = _ask(stages, words, rng)
        reads.append(1000 * (long_first.ms - short_first.ms) / (read * more))
        if short_step is not None and long_step is not None:
            steps.append(1000 * (long_step.ms - short_step.ms) / more)
    return ContextCost(
        read_us=max(0.0, statistics.median(reads)), step_us=max(0.0, statistics.median(steps)) if steps else 0.0
    )


def _ask(stages: Stages, words: int, rng: random.Random) -> tuple[Timing, Timing | None]:
    """Return the time to first text, and between pieces, behind a context of so many words."""
    before = question(words, rng)
    (said,) = stages.ask([(_SESSION, conversation(before, tokens_max=2))])
    (answer,) = stages.ask([(_SESSION, conversation(before, said.text, question(_SHORT, rng), tokens_max=_TOKENS))])
    stages.think.release(_SESSION)
    return answer.first, answer.between
