"""Plans as a whole, and the tenants' shares in them: properties over arbitrary work."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.pacing.fairness import Shares
from duplex.pacing.policies import ChunkDeadline, Fcfs, FcfsCapped, Listener, Oracle, RoundRobin
from duplex.pacing.policy import Policy, Work, WorkState
from duplex.pacing.urgency import Rank, Urgency
from duplex.payloads import Address, Clause, Job, JobId, Pace, Role
from duplex.stages.plan import EnginePlan, plan_batch, plan_engine, rounds
from duplex.units import MonoNs, ns_from_ms

pytestmark = pytest.mark.unit
UNIT_NS = ns_from_ms(50)
NOW = MonoNs(ns_from_ms(5000))


def make(
    number: int, tenant: str = "default", state: WorkState = WorkState.WAITING, served: int = 0, **pace: Any
) -> Work:
    """Return work; times of its pace in milliseconds."""
    given_pace = {
        k: MonoNs(ns_from_ms(v)) if isinstance(v, int) and not isinstance(v, bool) else v for k, v in pace.items()
    }
    address = Address(session=f"s{number}", lane=0, epoch=0, reply="r", tenant=tenant)
    made = Job(
        id=JobId(number), stage=Role.TALK, address=address, payload=Clause(index=0, text="x", voice="v"),
        pace=Pace(**({"since": MonoNs(0)} | given_pace)),
    )  # fmt: skip
    return Work(job=made, pace=made.pace, arrived=MonoNs(number), served=served, state=state)


def take(works: list[Work], room: int, shares: Shares, policy: Policy | None = None) -> list[Work]:
    return list(plan_batch(works, NOW, UNIT_NS, policy or Fcfs(), room, lambda job: None, shares).batch)


def engine(works: list[Work], slots: int, policy: Policy, pausable: bool = True) -> EnginePlan:
    return plan_engine(works, NOW, UNIT_NS, policy, slots, pausable, Shares({}))


# Shares. --------------------------------------------------------------------------------------------------------------


def test_a_service_moves_a_tenants_clock_by_the_inverse_of_its_weight() -> None:
    shares = Shares({"gold": 4.0, "lead": 0.5})
    assert (shares.cost("gold"), shares.cost("lead"), shares.cost("unnamed")) == (0.25, 2.0, 1.0)
    shares.charge("gold")
    assert shares.start("gold") == 0.25
    assert shares.start("unnamed") == 0.0


def test_one_that_was_idle_is_owed_nothing() -> None:
    shares = Shares({})
    for _ in range(100):
        shares.charge("busy")
    assert shares.start("idle") == shares.start("busy") - 1
    shares.charge("idle")
    assert shares.start("idle") == shares.start("busy")


def test_what_is_kept_of_tenants_is_bounded() -> None:
    shares = Shares({})
    for number in range(5000):
        shares.charge(f"t{number}")
        shares.charge("busy")
    assert len(shares._finish) <= 1025


weights = st.fixed_dictionaries({name: st.sampled_from([0.5, 1.0, 2.0, 3.0, 8.0]) for name in "abc"})


@given(weights, st.integers(1, 8))
def test_services_of_those_who_always_want_more_stay_within_one_step_of_their_weights(
    weight: dict[str, float], room: int
) -> None:
    """Start-time fair queueing: normalised services of two backlogged tenants differ by at most one service of each."""
    shares, number, got = Shares(weight), 0, Counter[str]()
    for _ in range(40):
        works = []
        for tenant in weight:
            for _ in range(room):
                number += 1
                works.append(make(number, tenant))
        got.update(work.job.address.tenant for work in take(works, room, shares))
        for one in weight:
            for other in weight:
                apart = got[one] / weight[one] - got[other] / weight[other]
                assert apart <= 1 / weight[one] + 1 / weight[other] + 1e-9
    assert got.total() == 40 * room


def test_a_batch_is_shared_by_weight_too() -> None:
    works = [make(number, tenant) for number, tenant in enumerate(["gold", "plain"] * 20)]
    got = Counter(work.job.address.tenant for work in take(works, 8, Shares({"gold": 3.0})))
    assert got == {"gold": 6, "plain": 2}


def test_nobody_waits_while_there_is_room() -> None:
    works = [make(1, "plain"), make(2, "plain"), make(3, "gold")]
    assert len(take(works, 8, Shares({"gold": 1000.0}))) == 3


def test_inside_a_tenant_the_most_urgent_goes_first() -> None:
    works = [make(1, "a", dry_at=9000), make(2, "b", dry_at=8000), make(3, "a", dry_at=7000), make(4, "b", dry_at=6000)]
    order = [work.job.id for work in take(works, 4, Shares({}), Listener(1000, 4))]
    assert order.index(JobId(3)) < order.index(JobId(1))
    assert order.index(JobId(4)) < order.index(JobId(2))


def test_a_better_class_of_one_tenant_goes_before_anothers_due_share() -> None:
    shares = Shares({})
    for _ in range(50):
        shares.charge("greedy")
    works = [make(1, "greedy", dry_at=5010), make(2, "patient", dry_at=9000)]
    assert take(works, 1, shares, Listener(1000, 4))[0].job.id == 1


def test_an_engine_charges_what_it_starts_and_not_what_goes_on() -> None:
    shares = Shares({})
    running = [make(n, "a", WorkState.RUNNING) for n in (1, 2)]
    for _ in range(10):
        plan_engine(running, NOW, UNIT_NS, Fcfs(), 3, True, shares)
    assert shares.start("a") == 0.0
    plan_engine([*running, make(3, "a")], NOW, UNIT_NS, Fcfs(), 3, True, shares)
    assert shares.start("a") == 1.0


# Plans over arbitrary work. -------------------------------------------------------------------------------------------

times = st.integers(0, 12_000)
paces = st.fixed_dictionaries(
    {"since": times},
    optional={
        "dry_at": times, "hold_until": times, "newest_starts": times,
        "blocked": st.booleans(), "speculative": st.booleans(),
    },
)  # fmt: skip
described = st.tuples(paces, st.sampled_from(WorkState), st.integers(0, 9))
POLICIES: dict[str, Policy] = {
    "fcfs": Fcfs(), "fcfs_capped": FcfsCapped(), "round_robin": RoundRobin(), "chunk_deadline": ChunkDeadline(1000),
    "listener": Listener(1000, 4), "oracle": Oracle(1000, 4, lambda address: MonoNs(ns_from_ms(7000))),
}  # fmt: skip


class Riding:
    """A policy's ranks without its rule for who may ride along."""

    def ride_units(self, dedicated: bool) -> int | None:
        return None

    def __init__(self, policy: Policy) -> None:
        self.name, self.bounded, self.rank = policy.name, policy.bounded, policy.rank


def made(descriptions: list[tuple[dict[str, Any], WorkState, int]], waiting_only: bool = False) -> list[Work]:
    return [
        make(number, state=WorkState.WAITING if waiting_only else state, served=served, **pace)
        for number, (pace, state, served) in enumerate(descriptions)
    ]


def ranks(works: list[Work], policy: Policy, unit_ns: int) -> dict[int, Rank]:
    return {work.job.id: policy.rank(work, NOW, unit_ns) for work in works}


def unit_of(works: list[Work], room: int) -> int:
    """Return how long the last of those who want a step now waits for one."""
    return UNIT_NS * rounds(works, NOW, room)


def due_of(rank: dict[int, Rank]) -> set[int]:
    """Return what may be served: speculative work only while nobody runs dry or waits for first audio."""
    due = {job for job, (urgency, _) in rank.items() if urgency != Urgency.HELD}
    pressed = any(rank[job][0] <= Urgency.FIRST for job in due)
    return {job for job in due if not (pressed and rank[job][0] == Urgency.SPECULATIVE)}


@given(st.lists(described, max_size=30), st.integers(1, 8), st.sampled_from(sorted(POLICIES)))
def test_a_batch_takes_the_most_urgent_and_never_what_is_held(descriptions: Any, room: int, name: str) -> None:
    policy: Policy = Riding(POLICIES[name])
    works = made(descriptions, waiting_only=True)
    rank = ranks(works, policy, unit_of(works, room))
    plan = plan_batch(works, NOW, UNIT_NS, policy, room, lambda job: None, Shares({}))
    chosen = [work.job.id for work in plan.batch]
    due = due_of(rank)
    assert len(chosen) == len(set(chosen)) == min(room, len(due))  # work-conserving
    assert set(chosen) <= set(due)
    assert chosen == sorted(due, key=lambda job: (*rank[job], job))[:room]
    held = [order for urgency, order in rank.values() if urgency == Urgency.HELD and order < 2**62]
    assert plan.wake_at == min(held, default=None)


@given(st.lists(described, max_size=30), st.integers(1, 8), st.sampled_from(sorted(POLICIES)))
def test_an_engine_runs_the_best_classes_and_everything_has_its_place(descriptions: Any, slots: int, name: str) -> None:
    policy: Policy = Riding(POLICIES[name])
    works = made(descriptions)
    rank = ranks(works, policy, unit_of(works, slots))
    plan = engine(works, slots, policy)
    chosen = {work.job.id for work in plan.order}
    due = due_of(rank)
    assert len(plan.order) == len(chosen) == min(slots, len(due))
    assert chosen <= due
    worst = max((rank[job][0] for job in chosen), default=Urgency.CRITICAL)
    assert all(rank[job][0] >= worst for job in due - chosen)  # nothing of a better class is left out
    running = {work.job.id for work in works if work.state is WorkState.RUNNING}
    paused = {work.job.id for work in plan.pause}
    assert running <= paused | chosen and not paused & chosen and paused <= running
    states = {
        WorkState.WAITING: {work.job.id for work in plan.start},
        WorkState.PAUSED: {work.job.id for work in plan.resume},
        WorkState.RUNNING: running - paused,
    }
    for state, ids in states.items():
        assert ids == {work.job.id for work in works if work.state is state} & chosen
    waits_in_class = [job for job in chosen - running if any(rank[other][0] == rank[job][0] for other in paused & due)]
    assert not waits_in_class  # nobody of its own class takes a running one's slot


@given(st.lists(described, max_size=30), st.integers(1, 8), st.sampled_from(sorted(POLICIES)))
def test_an_unpausable_engine_keeps_what_runs_and_fills_up(descriptions: Any, slots: int, name: str) -> None:
    policy = POLICIES[name]
    works = made([each for each in descriptions if each[1] is not WorkState.PAUSED])
    plan = engine(works, slots, policy, pausable=False)
    running = {work.job.id for work in works if work.state is WorkState.RUNNING}
    aborted = {work.job.id for work in plan.abort}
    rank = ranks([work for work in works if work.state is WorkState.WAITING], policy, UNIT_NS)
    wanting = [job for job, (urgency, _) in rank.items() if urgency < Urgency.SPECULATIVE]
    speculative = {work.job.id for work in works if work.job.id in running and work.pace.speculative}
    assert aborted <= speculative
    assert len(aborted) == max(0, min(len(speculative), len(wanting), len(running) + len(wanting) - slots))
    kept = [work for work in works if work.job.id in running - aborted]
    first = any(work.pace.dry_at is None and not work.pace.speculative for work in kept)
    waiting = [job for job in due_of(rank) if not (first and rank[job][0] == Urgency.SPECULATIVE)]
    started = [work.job.id for work in plan.start]
    assert not plan.pause and not plan.resume
    assert running - aborted <= {work.job.id for work in plan.order}
    assert started == sorted(waiting, key=lambda job: (*rank[job], job))[: max(0, slots - len(kept))]


@given(st.lists(described, max_size=30), st.integers(1, 8), st.integers(0, 100))
def test_who_may_ride_along(descriptions: Any, room: int, units: int) -> None:
    """While somebody waits for first audio, a step holds besides only those who run dry within so many units: of the time that
    the last who wants a step waits for one."""
    policy = Listener(1000, units)
    works = made(descriptions, waiting_only=True)
    unit_ns = unit_of(works, room)
    rank = ranks(works, policy, unit_ns)
    batch = plan_batch(works, NOW, UNIT_NS, policy, room, lambda job: None, Shares({})).batch
    due = [work for work in works if work.job.id in due_of(rank)]
    if not any(work.pace.dry_at is None and not work.pace.speculative for work in due):
        assert len(batch) == min(room, len(due))
        return
    assert batch and rank[batch[0].job.id] == min(rank.values())
    for work in batch:
        urgency, order = rank[work.job.id]
        assert urgency < Urgency.PACED or (urgency == Urgency.PACED and order <= units * unit_ns)
