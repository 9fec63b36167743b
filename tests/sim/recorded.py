"""Recorders for simulated servers, and the random conversations that are recorded."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from duplex_models.sim import SimOptions

from duplex.config import RecordingSettings, Settings, StageSettings
from duplex.payloads import StageError
from duplex.telemetry.recording import PackName, Recorder
from tests.sim.world import Server, Session

LONG = " ".join(f"word{i}" for i in range(40))
_FAULTS: tuple[Callable[[Any], Any], ...] = (
    lambda jobs: 1 / 0,
    lambda jobs: [StageError(reason="out of memory", kind="refused") for _ in jobs],
)


def recorder(folder: Path, outcomes: Counter[str] | None = None, seed: int = 0, **settings: Any) -> Recorder:
    """Return one that keeps up with simulated time, whose seeds are its own; closed, it has written everything."""
    bounds = {
        "directory": folder / "recordings", "waiting_steps_max": 10_000_000, "flush_s": 0.01, "close_timeout_s": 100,
    } | settings  # fmt: skip
    counted: Counter[str] = Counter() if outcomes is None else outcomes
    seeds = Random(seed)

    def observe(name: str, value: float, labels: Any) -> None:
        assert name == "duplex_recordings_total"
        counted[labels["outcome"]] += int(value)

    return Recorder(
        RecordingSettings(**bounds), PackName(name="sim", hash="0"), observe,
        unix_ns=functools.partial(next, itertools.count(1_700_000_000_000_000_000, 1000)),
        seed=lambda: f"{seeds.getrandbits(64):x}",
    )  # fmt: skip


def under_record(server: Server, recorder: Recorder) -> None:
    """Record every session that connects to the server from now on; `hang_up` ends them."""
    server.context = replace(server.context, make_core=recorder.core)


def hang_up(server: Server, recorder: Recorder) -> None:
    """End all sessions and their records."""
    for session in server.sessions:
        if not session.ended:
            session.leave()
        recorder.ended(session.actor.session_id)


def conversations(seed: int, recorder: Recorder, sessions: int = 5, seconds: float = 15.0) -> Server:
    """Let several people talk, type, interrupt, cough and hang up, at stages that are slow and that fail at times."""
    server = Server(
        SimOptions(
            vad="level", script=(LONG, "A short one."), transcripts=("one", "two words", "", "and three words"),
            reads=("EXIT", "") if seed % 3 == 0 else (), first_token_s=0.05, token_s=0.01, transcribe_s=0.03,
        ),
        Settings(stages=StageSettings(step_timeout_s=1.5)), seed=seed,
    )  # fmt: skip
    rng = server.world.random
    for stage in ("transcribe", "end_of_turn", "talk", "vocode"):
        server.world.costs[stage] = functools.partial(rng.uniform, 0.0, 0.09)
    under_record(server, recorder)
    wires: tuple[dict[str, Any] | None, ...] = (
        None, {"type": "realtime", "duplex": {"on_onset": "hold"}},
        {"type": "realtime", "audio": {"input": {"turn_detection": {"type": "server_vad"}}}},
    )  # fmt: skip
    people = [server.connect("websocket" if n % 3 == 2 else "webrtc", wires[n % len(wires)]) for n in range(sessions)]
    for person in people:
        person.say(rng.uniform(300, 900))
    end = server.world.now() + seconds * 1e9
    while server.world.now() < end:
        with_fault = rng.random() < 0.3
        undo = _break(server, rng) if with_fault else None
        for person in people:
            if not person.ended:
                _act(person, rng)
        server.advance(rng.uniform(50, 1200))
        if undo is not None:
            undo()
    hang_up(server, recorder)
    server.advance(3000)
    return server


def _act(person: Session, rng: Random) -> None:
    match rng.randrange(12):
        case 0 | 1 | 2:
            person.say(rng.uniform(400, 1200))
        case 3:
            person.say(rng.uniform(60, 250))
        case 4:
            person.type_text("go on")
        case 5:
            person.event(type="response.cancel")
        case 6:
            person.event(type="session.update", session={"type": "realtime", "instructions": "Brief."})
        case 7:
            person.event(type="conversation.item.delete", item_id="none")
        case 8 if rng.random() < 0.05:
            person.leave()


def _break(server: Server, rng: Random) -> Callable[[], None]:
    """Break one stage; return what mends it."""
    name = rng.choice(["transcribe", "talk", "vocode", "end_of_turn", "hung"])
    if name == "hung":
        cost = server.world.costs["vocode"]
        server.world.costs["vocode"] = lambda: 4.0
        return lambda: server.world.costs.__setitem__("vocode", cost)
    stage = server.stage(name)
    step = stage.step
    stage.step = rng.choice(_FAULTS)
    return lambda: setattr(stage, "step", step)
