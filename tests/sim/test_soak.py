"""A soak in small: sessions come and go while stages break. `python -m benchmarks.soak_sim` runs a thousand."""

import pytest

from tests.sim.soak import KINDS, soak

pytestmark = pytest.mark.sim


def test_sessions_come_and_go_while_stages_break_and_every_invariant_holds() -> None:
    counts = soak(seed=1, sessions=80)
    assert counts["sessions"] == 80
    assert all(counts[kind] for kind in KINDS)
    assert all(counts[f"replies {status}"] for status in ("completed", "cancelled", "failed"))
