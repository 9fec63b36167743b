"""Stages that cannot have a process, or cannot load in it. Those whose process is killed: test_stage_kills.py."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import pytest
from duplex_models.sim import SimOptions, make

from duplex.config import StageSettings
from duplex.payloads import Role
from duplex.stages.contract import ModelPack, PackError
from duplex.stages.process import ProcessBatch, isolated

pytestmark = pytest.mark.protocol
OPTIONS = SimOptions(vad="level", script=("One two three.",))


def broken() -> Any:
    """Make no stage."""
    raise PackError("no weights here")


def test_a_process_that_cannot_load_says_why() -> None:
    spec = next(stage.spec for stage in make(OPTIONS).stages if stage.spec.role is Role.TALK)
    stage = ProcessBatch(spec, broken, StageSettings())
    with pytest.raises(PackError, match="no weights here"):
        stage.load(lambda line: None)
    dying = ProcessBatch(spec, partial(os._exit, 3), StageSettings())
    with pytest.raises(PackError, match="ended while it loaded"):
        dying.load(lambda line: None)


def test_a_stage_that_cannot_have_a_process_is_refused() -> None:
    pack: ModelPack = make(OPTIONS, after=lambda seconds, call: lambda: None)
    with pytest.raises(PackError, match="think of the model pack sim cannot have a process"):
        isolated(pack, StageSettings(processes=("think",)))
    with pytest.raises(PackError, match="has no tick"):
        isolated(pack, StageSettings(processes=("tick",)))
    assert isolated(pack, StageSettings(processes=())).stages == pack.stages
