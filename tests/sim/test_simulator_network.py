"""What the way does: loss is concealed, jitter beyond the buffer is a gap, and delay moves the first sound by itself."""

from __future__ import annotations

from typing import Any

import pytest

from loadgen.sim.world import Result
from tests.sim.simulated import CLEAN, POLICIES, Watched, crowd, profile, simulate, vocoder

pytestmark = pytest.mark.sim


def run(**network: float) -> tuple[Watched, Result]:
    return simulate(crowd(4, 0.2, turns=2, answer_words=15), network=CLEAN.model_copy(update=network))


def ttfas(result: Result) -> list[float]:
    assert all(row.ttfas_s is not None for row in result.rows)
    return [row.ttfas_s or 0.0 for row in result.rows]


@pytest.mark.parametrize(
    ("changed", "by_s"),
    [
        ({"delay_ms": 70}, 0.1),  # both ways
        ({"delay_ms": 120}, 0.2),
        ({"server_buffer_ms": 120}, 0.1),
        ({"client_buffer_ms": 160}, 0.1),
    ],
)
def test_delay_and_buffers_move_the_first_sound_by_themselves(changed: dict[str, Any], by_s: float) -> None:
    near, far = ttfas(run()[1]), ttfas(run(**changed)[1])
    for before, after in zip(near, far, strict=True):
        assert after - before == pytest.approx(by_s, abs=0.041)  # packets leave every 20 ms, and steps are shared
    assert sum(far) - sum(near) == pytest.approx(by_s * len(far), abs=0.1)


def test_loss_is_concealed_and_makes_no_gap() -> None:
    world, result = run(loss=0.1)
    packets = sum(account.left for account in world.accounts.values()) / 960
    concealed = sum(
        heard.concealed for person in world.everyone.values() for heard in person.session.listener.replies.values()
    )
    assert concealed / packets == pytest.approx(0.1, abs=0.02)
    assert not any(row.gaps for row in result.rows)


def test_jitter_within_the_buffer_is_not_heard() -> None:
    _, result = run(jitter_ms=5, client_buffer_ms=120)
    assert not any(row.gaps for row in result.rows)


def test_jitter_beyond_the_buffer_is_heard_though_the_server_sent_in_time() -> None:
    world, result = run(jitter_ms=30, client_buffer_ms=20)
    assert sum(row.gaps for row in result.rows) > 8
    assert world.totals.get("duplex_underruns_total{observed=sent}", 0) == 0


@pytest.mark.parametrize("policy", POLICIES)
def test_on_a_clean_network_the_listeners_gaps_are_the_servers_underruns(policy: str) -> None:
    world, result = simulate(crowd(6, 0.2, answer_words=12), profile(vocode=vocoder(60, batch_max=2)), policy)
    gaps = sum(row.gaps for row in result.rows)
    assert gaps > 20
    assert world.totals["duplex_underruns_total{observed=sent}"] == gaps
    seconds = sum(row.gap_s for row in result.rows)
    assert world.totals["duplex_underrun_seconds_total{observed=sent}"] == pytest.approx(seconds, abs=0.001)
