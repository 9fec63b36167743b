"""Generators: synthetic conversations with stated distributions, from a seed.

Lengths are log-normal, as lengths of utterances and answers are in recorded conversations: a median and a spread (sigma of
the logarithm). Arrivals are a renewal process with gamma-distributed gaps: cv 1 is Poisson, more is bursty (BurstGPT fits
real load with gamma gaps of cv > 1). Whether an answer is interrupted is a Bernoulli draw, and where is uniform over it, as
in LiveServe's evaluation.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from loadgen.trace import CV_MAX, VERSION, Header, SessionTrace, Trace, Turn

WORDS_PER_S = 2.5
"""Of a user's speech."""
ANSWER_WORDS_PER_S = 170 / 60
"""Of the answer, to place interruptions in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNormal:
    """A length: its median, the spread of its logarithm, and where it is cut off."""

    median: float
    sigma: float
    least: float
    most: float

    def draw(self, rng: random.Random) -> float:
        """Return one length."""
        return min(self.most, max(self.least, self.median * rng.lognormvariate(0.0, self.sigma)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What kind of conversations."""

    name: str
    about: str
    rate: float
    """Sessions per second."""
    cv: float = 1.0
    turns: tuple[int, int] = (3, 6)
    speech_s: LogNormal = LogNormal(median=2.4, sigma=0.5, least=0.8, most=10.0)
    answer_words: LogNormal = LogNormal(median=30, sigma=0.6, least=4, most=150)
    gap_s: LogNormal = LogNormal(median=1.5, sigma=0.7, least=0.3, most=15.0)
    interrupted: float = 0.1
    """Probability that an answer is interrupted."""
    backchannelled: float = 0.15
    """Probability of a backchannel over an answer of more than 4 s."""
    paused: float = 0.2
    """Probability of a pause inside a turn of more than 2 s."""
    tenants: tuple[str, ...] = ("default",)


RECIPES = {
    "sparse": Recipe(
        name="sparse",
        about="Patient callers with long gaps: short questions, middling answers, few interruptions. Poisson arrivals.",
        rate=0.05,
        gap_s=LogNormal(median=4.0, sigma=0.7, least=0.5, most=30.0),
    ),
    "busy": Recipe(
        name="busy",
        about="Lively callers who get long answers and hardly wait. Bursty arrivals (cv 2).",
        rate=0.2,
        cv=2.0,
        answer_words=LogNormal(median=45, sigma=0.6, least=6, most=200),
        gap_s=LogNormal(median=0.9, sigma=0.6, least=0.2, most=6.0),
    ),
    "interrupted": Recipe(
        name="interrupted",
        about="Half of all answers are interrupted, anywhere in them; long answers. Poisson arrivals.",
        rate=0.1,
        turns=(4, 8),
        answer_words=LogNormal(median=50, sigma=0.6, least=8, most=200),
        gap_s=LogNormal(median=1.2, sigma=0.6, least=0.3, most=8.0),
        interrupted=0.5,
        backchannelled=0.25,
    ),
    "duo": Recipe(
        name="duo",
        about="Short calls for two talkers at once, to hold a simulation against a real run: little is interrupted.",
        rate=0.1,
        turns=(4, 5),
        gap_s=LogNormal(median=1.2, sigma=0.4, least=0.5, most=3.0),
        interrupted=0.05,
    ),
}
"""The committed traces, by name."""


def arrivals(rate: float, cv: float, rng: random.Random) -> Iterator[float]:
    """Give arrival times without end, the first at 0.

    Args:
        rate: per second, > 0.
        cv: coefficient of variation of the gaps; 0 is even spacing.
    """
    at = 0.0
    shape = 1 / cv**2 if cv else 0.0
    while True:
        yield at
        at += rng.gammavariate(shape, 1 / (rate * shape)) if cv else 1 / rate


def generate(recipe: Recipe, sessions: int, seed: int) -> Trace:
    """Make a trace of so many sessions; the same seed gives the same trace.

    Raises:
        ValueError: no session, or a rate or cv that no arrivals have.
    """
    if sessions < 1:
        raise ValueError(f"sessions: {sessions} is less than 1")
    if not 0 < recipe.rate < math.inf:
        raise ValueError(f"rate: {recipe.rate} is not a number of sessions per second above 0")
    if not 0 <= recipe.cv <= CV_MAX:
        raise ValueError(f"cv: {recipe.cv} is not between 0 and {CV_MAX}")
    rng = random.Random(seed)
    header = Header(
        duplex_trace=VERSION, name=recipe.name, about=recipe.about, arrivals_cv=recipe.cv,
        made_by=_command(recipe, sessions, seed),
    )  # fmt: skip
    times = arrivals(recipe.rate, recipe.cv, rng)
    callers = tuple(
        SessionTrace(session=f"s{n:04d}", at_s=round(next(times), 3), tenant=rng.choice(recipe.tenants), turns=_turns(recipe, rng))
        for n in range(sessions)
    )  # fmt: skip
    return Trace(header=header, sessions=callers)


def _command(recipe: Recipe, sessions: int, seed: int) -> str:
    """Return the command that makes this trace again."""
    usual = RECIPES.get(recipe.name, recipe)
    changed = [
        f"--{name} {getattr(recipe, name)}" for name in ("rate", "cv") if getattr(recipe, name) != getattr(usual, name)
    ]
    return " ".join([f"loadgen trace {recipe.name} --sessions {sessions} --seed {seed}", *changed])


def _turns(recipe: Recipe, rng: random.Random) -> tuple[Turn, ...]:
    count = rng.randint(*recipe.turns)
    return tuple(_turn(recipe, rng, last=number == count - 1) for number in range(count))


def _turn(recipe: Recipe, rng: random.Random, last: bool) -> Turn:
    speech_s = round(recipe.speech_s.draw(rng), 2)
    answer_words = round(recipe.answer_words.draw(rng))
    answer_s = answer_words / ANSWER_WORDS_PER_S
    interrupt = round(rng.uniform(0.3, answer_s), 2) if not last and rng.random() < recipe.interrupted else None
    pauses: tuple[tuple[float, float], ...] = ()
    if speech_s > 2 and rng.random() < recipe.paused:
        pauses = ((round(rng.uniform(0.6, speech_s - 1.2), 2), round(rng.uniform(0.1, 0.5), 2)),)
    backchannels: tuple[tuple[float, float], ...] = ()
    if answer_s > 4 and interrupt is None and rng.random() < recipe.backchannelled:
        backchannels = ((round(rng.uniform(1.0, answer_s - 2.0), 2), round(rng.uniform(0.16, 0.3), 2)),)
    return Turn(
        gap_s=round(recipe.gap_s.draw(rng), 2), speech_s=speech_s, words=max(1, round(speech_s * WORDS_PER_S)),
        pauses=pauses, answer_words=answer_words, interrupt_after_s=interrupt, backchannels=backchannels,
    )  # fmt: skip
