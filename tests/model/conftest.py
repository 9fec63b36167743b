"""The pack `local` with real weights, each stage loaded once for all tests that use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import onnxruntime
import pytest
from duplex_models.local import create

from duplex.stages.contract import Role
from tests.model.local_server import LocalServer


@pytest.fixture(scope="session")
def stages() -> Iterator[Callable[[Role], Any]]:
    """Return a function that loads a stage on first use."""
    onnxruntime.set_seed(20_261_129)  # the voice draws its rhythm at random
    pack = create({}, 2)
    by_role = {stage.spec.role: stage for stage in pack.stages}
    loaded: set[Role] = set()

    def load(role: Role) -> Any:
        if role not in loaded:
            by_role[role].load(lambda line: None)
            loaded.add(role)
        return by_role[role]

    yield load
    for stage in pack.stages:
        stage.close()


@pytest.fixture(scope="session")
def vad(stages: Callable[[Role], Any]) -> Any:
    return stages(Role.VAD)


@pytest.fixture(scope="session")
def end_of_turn(stages: Callable[[Role], Any]) -> Any:
    return stages(Role.END_OF_TURN)


@pytest.fixture(scope="session")
def transcribe(stages: Callable[[Role], Any]) -> Any:
    return stages(Role.TRANSCRIBE)


@pytest.fixture(scope="session")
def think(stages: Callable[[Role], Any]) -> Any:
    return stages(Role.THINK)


@pytest.fixture(scope="session")
def talk(stages: Callable[[Role], Any]) -> Any:
    return stages(Role.TALK)


@pytest.fixture(scope="session")
def vocode(stages: Callable[[Role], Any]) -> Any:
    return stages(Role.VOCODE)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """A server with this pack in its own process: one for all tests that hold conversations with it."""
    running = LocalServer(tmp_path_factory.mktemp("server") / "log.jsonl")
    yield running
    running.stop()
