"""The pack `local` with real weights, each stage loaded once for all tests that use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import onnxruntime
import pytest
from duplex_models.local import create

from duplex.stages.contract import ModelPack, Progress, Role, Stage
from tests.model.local_server import LocalServer


@pytest.fixture(scope="session")
def pack() -> ModelPack:
    """Return the pack, of which nothing is loaded."""
    return create({}, 2)


@pytest.fixture(scope="session")
def stages(pack: ModelPack) -> Iterator[Callable[[Role], Any]]:
    """Return a function that loads a stage on first use."""
    onnxruntime.set_seed(20_261_129)  # the voice draws its rhythm at random
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


class Kept:
    """A stage that is loaded on first use and stays so, whoever else loads and closes it."""

    def __init__(self, stage: Stage, stages: Callable[[Role], Any]) -> None:
        self._stage = stage
        self._stages = stages

    def load(self, progress: Progress) -> None:
        self._stages(self._stage.spec.role)

    def close(self) -> None:
        """Others use it too."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stage, name)


@pytest.fixture(scope="session")
def kept_pack(pack: ModelPack, stages: Callable[[Role], Any]) -> ModelPack:
    """Return the pack with stages that are loaded once for all tests."""
    return replace(pack, stages=tuple(Kept(stage, stages) for stage in pack.stages))


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
