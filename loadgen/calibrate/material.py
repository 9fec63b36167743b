"""What is given to the stages: speech as a server hears it, questions, and clauses, of several lengths."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from duplex.media import opus
from duplex.payloads import Clause, Int16Array, Utterance
from duplex.units import Samples, Span
from loadgen.live.speech import Bank
from loadgen.trace import Turn

PER_SAMPLE = 3
"""Positions (48 kHz) of a sample that is heard (16 kHz)."""
_QUANTILES = 9
QUESTIONS = (
    "What is the capital of France?",
    "Can you tell me how many planets are in the solar system?",
    "Why is the sky blue during the day?",
    "How do I make a cup of tea?",
    "Who wrote the play Romeo and Juliet?",
    "Explain what a computer program is in simple words.",
    "How far is it from London to Edinburgh by train?",
    "Could you help me write an email to my manager?",
    "What should I cook for dinner with chicken and rice?",
    "Tell me a short story about a brave little mouse.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """One turn of a user, as the server hears it."""

    pcm: Int16Array
    """16 kHz, silence behind it."""
    end: Samples
    """Labelled end of its energy, as a position in `pcm` at 48 kHz."""
    pause: Samples | None
    """Start of the pause inside it."""


def spoken(bank: Bank, speech_s: float, rng: random.Random, pause_s: float = 0.0, silence_s: float = 1.2) -> Spoken:
    """Return a turn of a length, encoded and decoded as in a call, so that what the codec does to its end is in it.

    Args:
        pause_s: length of a pause in its middle; 0: none.
        silence_s: behind it.
    """
    pause_at = round(speech_s / 2, 2)
    pauses = ((pause_at, pause_s),) if pause_s else ()
    turn = Turn(gap_s=0, speech_s=speech_s + pause_s, words=1, answer_words=1, pauses=pauses)
    utterance = bank.utterance(turn, rng)
    decoder = opus.Decoder()
    silent = (0,) * round(silence_s / 0.02)
    pieces = [decoder.decode(bank.packets[number].opus) for number in (*utterance.packets, *silent)]
    return Spoken(
        pcm=np.concatenate(pieces), end=utterance.end, pause=Samples(round(pause_at * 48_000)) if pause_s else None
    )


def utterance_of(pcm: Int16Array) -> Utterance:
    """Return audio at 16 kHz as an utterance that begins at position 0."""
    return Utterance(span=Span(Samples(0), Samples(len(pcm) * PER_SAMPLE)), pcm=pcm)


def question(words: int, rng: random.Random) -> str:
    """Return text of so many words that begins and goes on differently each time."""
    pool: list[str] = []
    while len(pool) < words:
        pool += rng.choice(QUESTIONS).split()
    return " ".join(pool[-words:])


def clause(text: str, voice: str, index: int = 0) -> Clause:
    """Return text as a clause."""
    return Clause(index=index, text=text, voice=voice)


def quantiles(values: Sequence[float]) -> tuple[float, ...]:
    """Return nine numbers that stand for a distribution; none for no values."""
    if not values:
        return ()
    places = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    return tuple(round(float(value), 1) for value in np.quantile(values, places))


def words_of(texts: Sequence[str], words: int, rng: random.Random) -> str:
    """Return a piece of so many words from what a thinker said."""
    said = " ".join(texts).split()
    while len(said) < words:
        said = said + said
    at = rng.randrange(len(said) - words + 1)
    return " ".join(said[at : at + words])
