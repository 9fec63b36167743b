"""A stage behind a gate, for a process of its own: while the gate is shut it holds its work, and does not load."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from duplex.stages.contract import Progress, Stage, StageMaker

GREEDY = "greedy"
"""In the gate's file: what waits takes memory meanwhile, until there is none."""
_LOOK_S = 0.002
_BLOCK = 8 << 20
_BLOCKS_MAX = 64
"""Half a gigabyte: more than any test leaves a stage, and no harm where the test forgot to bound it."""


class Gated:
    """Any stage; what it computes waits at the gate.

    Args:
        maker: makes the stage.
        shut: the gate, which is shut while this file is there.
    """

    def __init__(self, maker: StageMaker, shut: Path) -> None:
        self._stage: Stage = maker()
        self._shut = shut
        self.spec = self._stage.spec

    def load(self, progress: Progress) -> None:
        """Load the stage, as soon as the gate is open."""
        self._pass(greedy=False)
        self._stage.load(progress)

    def __getattr__(self, name: str) -> Any:
        """Return what the stage has, the gate before what gives it work."""
        of_stage = getattr(self._stage, name)
        if name not in ("step", "submit"):
            return of_stage

        def gated(*work: Any) -> Any:
            self._pass(greedy=True)
            return of_stage(*work)

        return gated

    def _pass(self, *, greedy: bool) -> None:
        taken: list[bytes] = []
        while self._shut.exists():
            if greedy and self._shut.read_text() == GREEDY:
                assert len(taken) < _BLOCKS_MAX, "nothing bounds this process"
                taken.append(b"\1" * _BLOCK)
            else:
                time.sleep(_LOOK_S)
