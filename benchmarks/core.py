"""What does the core cost? 100 sessions with turns on simulated time; µs of core and actor per session and 20 ms.

Time inside the stages, the egress queue's samples, the echo gate, the wire's encoding and the simulator's own heap is measured and
taken off: each is a part of its own, and so is what measuring costs. CPU time is counted, so that other load does not show.
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import structlog
from duplex_models.sim import SimOptions

from benchmarks.report import write
from tests.sim.world import Server

SESSIONS = 100
TICKS_PER_S = 50


class Stopwatch:
    """Exclusive time by part, over nested calls, less what measuring itself costs (calibrated on an empty method)."""

    def __init__(self) -> None:
        self.parts: dict[str, list[float]] = {}
        """Per part: seconds, calls, wrapped calls inside."""
        self._stack: list[list[float]] = []

    def wrap(self, owner: Any, method: str, part: str) -> None:
        """Count a method's time, less that of wrapped methods inside it, as `part`'s."""
        inner: Callable[..., Any] = getattr(owner, method)
        clock = time.thread_time
        stack = self._stack
        totals = self.parts.setdefault(part, [0.0, 0, 0])

        def timed(*args: Any, **kwargs: Any) -> Any:
            frame = [0.0, 0]
            stack.append(frame)
            began = clock()
            try:
                return inner(*args, **kwargs)
            finally:
                spent = clock() - began
                stack.pop()
                totals[0] += spent - frame[0]
                totals[1] += 1
                totals[2] += frame[1]
                if stack:
                    stack[-1][0] += spent
                    stack[-1][1] += 1

        setattr(owner, method, timed)

    def seconds(self) -> dict[str, float]:
        """Return seconds by part."""
        own, around = _calibrate()
        return {part: s - calls * own - nested * around for part, (s, calls, nested) in self.parts.items()}


class _Empty:
    def outer(self) -> None:
        for _ in range(1000):
            self.inner()

    def inner(self) -> None:
        pass


def _calibrate() -> tuple[float, float]:
    """Return what a wrapped call adds to its own time, and to its caller's."""
    plain = _Empty()
    began = time.thread_time()
    for _ in range(200):
        plain.outer()
    bare = (time.thread_time() - began) / 200_000
    watch, probe = Stopwatch(), _Empty()
    watch.wrap(probe, "inner", "inner")
    watch.wrap(probe, "outer", "outer")
    for _ in range(200):
        probe.outer()
    return watch.parts["inner"][0] / 200_000, watch.parts["outer"][0] / 200_000 - bare


def measure(media_s: float) -> dict[str, Any]:
    """Run the sessions and return µs per session and 20 ms, by part."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    text = "This is an answer of some length, so that there is something to say. " * 3
    server = Server(SimOptions(vad="level", script=(text,), first_token_s=0.05, token_s=0.01))
    server.observe_nothing()
    watch = Stopwatch()
    sessions = [server.connect() for _ in range(SESSIONS)]
    for session in sessions:  # the scenario's own records would grow, and the collector's time with them
        session.effects, session.packets = deque(maxlen=0), deque(maxlen=0)  # type: ignore[assignment]
        session.client.events = deque(maxlen=0)  # type: ignore[assignment]
    for session in sessions:
        actor = session.actor
        for method in ("hear", "next_packet", "_stage_output", "_timeout"):
            watch.wrap(actor, method, "core and actor")
        for method in ("pop", "enqueue", "cut", "report"):
            watch.wrap(actor.egress, method, "egress queue")
        ears = actor._microphone
        assert ears._echo is not None
        watch.wrap(ears._echo, "is_echo", "echo gate")
        watch.wrap(ears._reference, "sent", "echo gate")
        watch.wrap(ears._voice_end, "probability", "voice's level")
        watch.wrap(actor._microphone._ingress, "push", "input ring")
        watch.wrap(actor._microphone._ingress, "read", "input ring")
        watch.wrap(actor._events, "send", "wire encoding")
        server.runners._sessions[actor.session_id] = actor._stage_output
    for runner in server.runners.runners.values():
        for method in ("submit", "repace", "cut", "drop", "_finished" if hasattr(runner, "_finished") else "_emitted"):
            watch.wrap(runner, method, "stage runners")
    rng = server.world.random
    began = time.perf_counter()
    for _ in range(int(media_s)):
        for session in sessions:
            if rng.random() < 0.1:
                session.say(rng.uniform(500, 2500))
        server.advance(1000)
    wall = time.perf_counter() - began
    steps = SESSIONS * TICKS_PER_S * int(media_s)
    replies = server.stage("vocode").replies
    return {
        "sessions": SESSIONS,
        "media_s": int(media_s),
        "replies": replies,
        "us_per_session_and_20_ms": {part: round(s / steps * 1e6, 2) for part, s in sorted(watch.seconds().items())},
        "session_minutes_per_wall_minute": round(SESSIONS * media_s / wall),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--media", type=float, default=60.0, help="simulated seconds")
    write("core", measure(parser.parse_args().media))


if __name__ == "__main__":
    main()
