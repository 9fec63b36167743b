"""The thinker's context over its limit: kept, offloaded by last use, or by next use and brought back while the user speaks."""

from __future__ import annotations

import pytest

from loadgen.sim.kv import Kind
from loadgen.sim.profile import Cost
from tests.sim.simulated import Watched, chosen, crowd, profile, thinker

pytestmark = pytest.mark.sim
LIMIT = 4000
LOAD_S_PER_TOKEN = 0.0002
MODEL = profile(
    think=thinker(instructions_tokens=1000, kv_load_ms_per_token=1000 * LOAD_S_PER_TOKEN, prefill=Cost(base=20))
)
"""Three contexts of at least 1000 tokens fit; bringing one back takes 0.2 s and more."""
SESSIONS = crowd(8, 1.0, turns=3, answer_words=8, gap_s=3.0)


def run(kind: Kind, limit: int = LIMIT) -> tuple[Watched, float, int]:
    """Return the world, the mean time to first audio, and the most tokens that were on the device."""
    world = Watched(MODEL, options=chosen(kv=kind, kv_tokens=limit))
    most = 0

    def look() -> None:
        nonlocal most
        most = max(most, world.kv._on_device)

    world.every(0.02, look)
    result = world.run(SESSIONS)
    assert all(row.ttfas_s is not None for row in result.rows)
    return world, sum(row.ttfas_s or 0 for row in result.rows) / len(result.rows), most


def test_each_kind_has_its_price() -> None:
    keep, keep_s, keep_most = run("keep")
    lru, lru_s, lru_most = run("lru")
    next_use, next_use_s, next_use_most = run("next_use")
    assert (keep.kv.loads, keep.kv.preloads) == (0, 0)
    assert keep_most > 2 * LIMIT
    assert lru.kv.loads > 8 and lru.kv.preloads == 0
    assert lru_s > keep_s + 0.1
    assert next_use.kv.preloads > 8 and next_use.kv.loads == 0
    assert next_use_s == pytest.approx(keep_s, abs=0.005)  # all of it happened while people spoke
    assert max(lru_most, next_use_most) <= LIMIT


def test_without_a_limit_all_kinds_are_alike() -> None:
    for kind in ("lru", "next_use"):
        world, mean_s, _ = run(kind, limit=0)  # type: ignore[arg-type]
        assert (world.kv.loads, world.kv.preloads) == (0, 0)
        assert mean_s == pytest.approx(run("keep")[1])
