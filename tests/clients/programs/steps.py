"""What the Python programs share: their plan, their steps, and a microphone that never stops.

A program uses one client package as its users do. It is started with the path of its plan, and prints a line of JSON for
each step: `{"step": …, "ok": …, "error": …}`. Nothing but the standard library is used, for each program runs in the
environment of its package.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

RATE = 24_000
BYTES_PER_S = 2 * RATE
PIECE_S = 0.05
MOMENT_S = 0.8
"""What is heard of an answer before it is interrupted."""
STEP_S_MAX = 60.0
"""Ceiling of a step; one that passes takes a fraction of it."""

STEPS = ("connect", "configure", "voice turn", "text turn", "barge-in", "tool call", "clean end")
"""What a program does, in order, unless its package asks for something else."""

Step = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do with which server."""

    url: str
    """Of the server, without a path."""
    key: str
    """API key."""
    question: bytes
    """A spoken question: 24 kHz, 16 bits, little endian, mono."""
    answers: tuple[str, ...]
    """One of these words is in a right answer; none: any answer is right."""
    text: str
    """A written question."""
    text_answers: tuple[str, ...]
    story: str
    """A written request whose answer is long enough to be interrupted."""
    interruption: bytes
    """Spoken while that answer plays; like `question`."""
    tool_request: str | None
    """A written request that needs the tool `open_door`; None: the tool is left out."""
    patient: bool
    """Hear the answer to the interruption to its end; else only its beginning."""
    word_ms: int | None
    """Length of each spoken word, where all are of one length."""

    @property
    def ws_url(self) -> str:
        """The server's WebSocket URL, without a path."""
        return self.url.replace("http", "ws", 1)


def read_plan() -> Plan:
    """Return the plan whose file is the program's argument."""
    raw = json.loads(Path(sys.argv[1]).read_text())
    for name in ("question", "interruption"):
        raw[name] = Path(raw[name]).read_bytes()
    for name in ("answers", "text_answers"):
        raw[name] = tuple(raw[name])
    return Plan(**raw)


def main(program: Callable[[Plan], object], steps: Sequence[str] = STEPS) -> None:
    """Take a program's steps.

    Args:
        program: makes it for a plan, inside the loop that it runs in.
        steps: in order, each the method of its name ("barge-in": `barge_in`); "tool call" only where the plan has one.
    """

    async def take() -> None:
        plan = read_plan()
        made = program(plan)
        named = [step for step in steps if step != "tool call" or plan.tool_request is not None]
        await run([(step, getattr(made, step.replace(" ", "_").replace("-", "_"))) for step in named])

    asyncio.run(take())


async def run(steps: Sequence[tuple[str, Step]]) -> None:
    """Take the steps in order and print how each went; without the first there is no other."""
    for number, (name, step) in enumerate(steps):
        began = asyncio.get_running_loop().time()
        error = None
        try:
            async with asyncio.timeout(STEP_S_MAX):
                await step()
        except Exception:  # noqa: BLE001 - a step's root: its outcome is what is asked for
            error = traceback.format_exc(limit=-6)
        seconds = round(asyncio.get_running_loop().time() - began, 2)
        sys.stdout.write(json.dumps({"step": name, "ok": error is None, "seconds": seconds, "error": error}) + "\n")
        sys.stdout.flush()
        if error is not None and number == 0:
            return


class Microphone:
    """Gives what is said, and silence in between, at real time.

    Args:
        give: takes a piece of 50 ms.
    """

    def __init__(self, give: Callable[[bytes], Awaitable[None]]) -> None:
        self._give = give
        self._waiting: deque[bytes] = deque()

    def say(self, pcm: bytes) -> None:
        """Queue a recording."""
        size = int(BYTES_PER_S * PIECE_S)
        self._waiting.extend(pcm[at : at + size].ljust(size, b"\0") for at in range(0, len(pcm), size))

    async def run(self) -> None:
        """Listen until cancelled."""
        loop = asyncio.get_running_loop()
        began, pieces = loop.time(), 0
        silence = bytes(int(BYTES_PER_S * PIECE_S))
        while True:
            await self._give(self._waiting.popleft() if self._waiting else silence)
            pieces += 1
            await asyncio.sleep(began + pieces * PIECE_S - loop.time())


class Waiter:
    """Wakes who waits for a condition whenever something has happened."""

    def __init__(self) -> None:
        self._happened = asyncio.Event()

    def wake(self) -> None:
        """Say that something has happened."""
        self._happened.set()

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for a condition.

        Raises:
            AssertionError: the step's time is over.
        """
        try:
            while not condition():
                self._happened.clear()
                await self._happened.wait()
        except asyncio.CancelledError:
            raise AssertionError(f"waited for {what}") from None


def words_of(text: str) -> list[str]:
    """Return a text's words in lower case, without punctuation."""
    return "".join(c if c.isalnum() else " " for c in text.lower()).split()


def check_answer(text: str, accepted: tuple[str, ...]) -> None:
    """Check that an answer is there, and right."""
    words = words_of(text)
    assert words, "the answer has no words"
    assert not accepted or set(accepted) & set(words), f"{text!r} has none of {accepted}"


def check_heard(plan: Plan, kept: str, said: str, played_ms: int | None) -> None:
    """Check what the history keeps of an interrupted answer: the words that were heard, and no others.

    Args:
        kept: its text in the history.
        said: the text that had come.
        played_ms: the audio that had been played; None: the client does not tell.
    """
    heard, all_words = words_of(kept), words_of(said)
    assert heard == all_words[: len(heard)], f"{kept!r} is not how {said!r} begins"
    # The text of a clause comes with its sound, so a cut between two clauses leaves nothing that came and was not heard.
    most = len(all_words) if plan.word_ms is None else len(all_words) - 1
    assert 0 < len(heard) <= most, f"{kept!r} is kept of {said!r}, {played_ms} ms were played"
    if plan.word_ms is not None and played_ms is not None:
        assert abs(len(heard) - played_ms / plan.word_ms) <= 1, f"{len(heard)} words are kept of {played_ms} ms"
