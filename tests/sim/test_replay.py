"""Recorded sessions run again to the same effects: people who interrupt, stages that fail, clients that vanish."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from duplex.replay import replay
from tests.sim.recorded import conversations, recorder

pytestmark = pytest.mark.sim


def test_fifty_recorded_sessions_with_interruptions_and_faults_run_again_to_the_same_effects(tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    interrupted = failed = 0
    for seed in range(10):
        recording = recorder(tmp_path / str(seed), outcomes, seed)
        server = conversations(seed, recording)
        recording.close()
        server.check()
        interrupted += int(server.total("duplex_barge_in_total", outcome="confirmed"))
        failed += int(server.total("duplex_replies_total", status="failed"))
    files = sorted(tmp_path.glob("*/recordings/*"))
    assert (len(files), outcomes) == (50, {"ended": 50})
    assert interrupted >= 50 and failed >= 20
    results = [replay(file) for file in files]
    assert [result.difference for result in results] == [None] * 50
    assert [result.warnings for result in results] == [[]] * 50
    assert {result.end for result in results} == {"ended"}
