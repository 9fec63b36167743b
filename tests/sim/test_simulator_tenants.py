"""Tenants share a narrow stage by weight while both want it, and it belongs to one of them while the other is away."""

from __future__ import annotations

from collections import Counter

import pytest

from loadgen.trace import SessionTrace
from tests.sim.simulated import caller, profile, simulate, talker, thinker, vocoder

pytestmark = pytest.mark.sim
STEP_S = 0.04
MODEL = profile(vocode=vocoder(1000 * STEP_S, batch_max=1), think=thinker(slots=64), talk=talker(2, slots=64))
"""25 chunks a second; sixteen listeners want four times as many."""
WEIGHTS = {"scheduling": {"tenant_weights": {"gold": 3.0}}}


def callers(tenant: str, answer_words: int, at_s: float = 0.0) -> list[SessionTrace]:
    return [caller(f"{tenant}{n}", at_s, tenant=tenant, answer_words=answer_words) for n in range(8)]


def services(sessions: list[SessionTrace], policy: str, *windows: tuple[float, float]) -> list[Counter[str]]:
    """Return the chunks that each tenant got within each window of time."""
    world, _ = simulate(sessions, MODEL, policy, settings=WEIGHTS)
    spans = world.spans_of("vocode", "done")
    return [
        Counter(span.address.tenant for span in spans if begin <= span.ended_at / 1e9 < end) for begin, end in windows
    ]


@pytest.mark.parametrize("policy", ["fcfs", "listener"])
def test_services_are_as_the_weights_while_the_stage_is_full(policy: str) -> None:
    both = [*callers("gold", 40), *callers("plain", 40)]
    for got in services(both, policy, (4, 8), (8, 12)):
        assert got.total() == pytest.approx(4 / STEP_S, abs=1)
        assert got["gold"] == pytest.approx(0.75 * got.total(), abs=2)


@pytest.mark.parametrize("policy", ["fcfs", "listener"])
def test_who_is_alone_gets_everything(policy: str) -> None:
    """`gold` has said all it had to say long before `plain` has; when it comes again it is owed nothing for its absence."""
    sessions = [*callers("gold", 6), *callers("plain", 60), *callers("gold", 30, at_s=14.0)]
    sessions = [each.model_copy(update={"session": f"s{n}"}) for n, each in enumerate(sessions)]
    alone, again = services(sessions, policy, (11, 15), (18, 22))
    assert alone["gold"] == 0
    assert alone["plain"] == pytest.approx(4 / STEP_S, abs=1)
    assert again["gold"] == pytest.approx(0.75 * again.total(), abs=2)
