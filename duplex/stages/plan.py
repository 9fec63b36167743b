"""What a stage does next: (views of its work, now) → plan. Pure; the runners execute the plans, a simulator runs the same.

Work is ranked by a policy (`duplex.pacing.policy`); inside a class tenants share by weight. HELD work is never taken, nor
does it ride along in a batch. SPECULATIVE work takes no place and no time from anybody: it shares no step with those who
run dry or wait for first audio, and makes room in an engine. Work for idle time (`Pace.idle_only`) runs in an engine only while
nothing else does.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from duplex.pacing.fairness import Shares
from duplex.pacing.policy import Policy, Work, WorkState
from duplex.pacing.urgency import FAR, Urgency
from duplex.payloads import Job
from duplex.units import MonoNs, ns_from_ms

_Ranked = tuple[int, int, int, Work]
"""Class, order in it, job id (so that ties are broken by age), the work."""
_HELD = int(Urgency.HELD)
_LOOK_AGAIN_NS = ns_from_ms(20)
"""Work that is due and has no place in an engine grows more urgent by time alone: it is looked at again after this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """One decision of a batch stage."""

    batch: tuple[Work, ...]
    """To run now, most urgent first; empty when nothing is due."""
    wake_at: MonoNs | None
    """When held work becomes due, if nothing happens before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlan:
    """One decision of an engine stage, which has work running already."""

    start: tuple[Work, ...]
    """Waiting work to submit."""
    resume: tuple[Work, ...]
    """Paused work that goes on."""
    pause: tuple[Work, ...]
    """Running work that makes room, or is far enough ahead."""
    abort: tuple[Work, ...]
    """Running speculative work that makes room and cannot be paused, and work for idle time, which is over."""
    order: tuple[Work, ...]
    """All that runs after this plan, most urgent first."""
    wake_at: MonoNs | None


def plan_batch(
    works: Iterable[Work], now: MonoNs, unit_ns: int, policy: Policy, room: int, batch_key: Callable[[Job], object],
    shares: Shares,
) -> BatchPlan:  # fmt: skip
    """Choose a batch.

    Args:
        works: all that waits.
        unit_ns: time until one step's result would reach the listener; counted once for each of the `rounds`.
        room: jobs in one step at most.
        batch_key: only jobs of the most urgent one's key go together.
        shares: of the tenants; charged for what is taken.
    """
    works = list(works)
    unit_ns *= rounds(works, now, room)
    due, wake_at = _ranked(works, now, unit_ns, policy)
    if not due:
        return BatchPlan(batch=(), wake_at=wake_at)
    if len(due) == 1:
        batch = [due[0][3]]  # as most VAD windows: there is nothing to choose
    else:
        due = _without_speculation(_without_riders(due, policy, unit_ns))
        batch = _select(due, room, shares)
        key = batch_key(batch[0].job)
        if key is not None:
            batch = _select([ranked for ranked in due if batch_key(ranked[3].job) == key], room, shares)
    for work in batch:
        shares.charge(work.job.address.tenant)
    return BatchPlan(batch=tuple(batch), wake_at=wake_at)


def plan_engine(
    works: Iterable[Work], now: MonoNs, unit_ns: int, policy: Policy, slots: int, pausable: bool, shares: Shares
) -> EnginePlan:
    """Choose what runs in an engine.

    Running work keeps its slot against waiting work of its own class, so that nothing is swapped for nothing; in an engine that
    cannot pause, against all but for what is speculative.

    Args:
        works: all that waits, runs or is paused.
        unit_ns: time until what is generated next would reach the listener; counted once for each of the `rounds`.
        slots: jobs that may generate at once.
        pausable: running work can be paused; else it runs to its end.
        shares: of the tenants; charged for what is started.
    """
    works = list(works)
    idle = [work for work in works if work.pace.idle_only]
    if idle:
        return _beside(
            idle, plan_engine([w for w in works if not w.pace.idle_only], now, unit_ns, policy, slots, pausable, shares)
        )
    abort: list[Work] = []
    if not pausable:
        running = [work for work in works if work.state is WorkState.RUNNING]
        waiting, wake_at = _ranked((w for w in works if w.state is WorkState.WAITING), now, unit_ns, policy)
        abort = _making_room(running, waiting, slots)
        running = [work for work in running if work not in abort]
        if any(map(_waits_for_first, running)):
            waiting = [ranked for ranked in waiting if ranked[0] != Urgency.SPECULATIVE]
        start = _select(_without_speculation(waiting), max(0, slots - len(running)), shares)
        chosen = [*running, *start]
    else:
        unit_ns *= rounds(works, now, slots)
        due, wake_at = _ranked(works, now, unit_ns, policy)
        wanted, due = len(due), _without_speculation(_without_riders(due, policy, unit_ns))
        if wanted > slots or len(due) < wanted:
            again = MonoNs(now + _LOOK_AGAIN_NS)
            wake_at = again if wake_at is None else min(wake_at, again)
        settled = [
            (urgency, order if work.state is WorkState.RUNNING else order + FAR, job, work)
            for urgency, order, job, work in due
        ]
        chosen = _select(settled, slots, shares)
    kept = {id(work) for work in chosen}
    start = [work for work in chosen if work.state is WorkState.WAITING]
    for work in start:
        shares.charge(work.job.address.tenant)
    return EnginePlan(
        start=tuple(start),
        resume=tuple(work for work in chosen if work.state is WorkState.PAUSED),
        pause=tuple(w for w in works if w.state is WorkState.RUNNING and id(w) not in kept and w not in abort),
        abort=tuple(abort),
        order=tuple(chosen),
        wake_at=wake_at,
    )


def _beside(idle: list[Work], plan: EnginePlan) -> EnginePlan:
    """Let work for idle time run (the runner takes one on at a time) where the others' plan leaves the engine idle, else end it."""
    if plan.order:
        return replace(plan, abort=(*plan.abort, *(work for work in idle if work.state is WorkState.RUNNING)))
    return replace(plan, start=tuple(work for work in idle if work.state is WorkState.WAITING), order=tuple(idle))


def rounds(works: Iterable[Work], now: MonoNs, room: int) -> int:
    """Return how many units the last of those that want one now has to wait for: with more work than room, several."""
    wanting = 0
    for work in works:
        pace = work.pace
        held = pace.hold_until is not None and now < pace.hold_until
        if not (held or pace.blocked or pace.speculative or pace.unpaced):
            wanting += 1
    return max(1, -(-wanting // room))


def _ranked(
    works: Iterable[Work], now: MonoNs, unit_ns: int, policy: Policy
) -> tuple[list[_Ranked], MonoNs | None]:  # fmt: skip
    """Return what is due with its rank, unsorted, and when the rest becomes so."""
    due: list[_Ranked] = []
    wake = FAR
    rank = policy.rank
    for work in works:
        urgency, order = rank(work, now, unit_ns)
        if urgency < _HELD:
            due.append((urgency, order, work.job.id, work))
        elif order < wake:
            wake = order  # type: ignore[assignment]
    return due, wake if wake < FAR else None


def _without_riders(due: list[_Ranked], policy: Policy, unit_ns: int) -> list[_Ranked]:
    """While somebody waits for first audio, leave out those who have time: each rider makes the step longer.

    On a dedicated device a rider costs little, and what it makes is a reserve for the next burst: there all may ride.
    """
    units = policy.ride_units(due[0][3].dedicated) if due else None
    if units is None or not any(_waits_for_first(ranked[3]) for ranked in due):
        return due
    soon = units * unit_ns
    return [ranked for ranked in due if ranked[0] < Urgency.PACED or (ranked[0] == Urgency.PACED and ranked[1] <= soon)]


def _without_speculation(due: list[_Ranked]) -> list[_Ranked]:
    """While somebody runs dry or waits for first audio, leave out what may be thrown away."""
    if not any(ranked[0] <= Urgency.FIRST for ranked in due):
        return due
    return [ranked for ranked in due if ranked[0] != Urgency.SPECULATIVE]


def _making_room(running: list[Work], waiting: list[_Ranked], slots: int) -> list[Work]:
    """Choose the newest of the speculative work that runs, as much as keeps other work waiting for a slot."""
    speculative = [work for work in running if work.pace.speculative]
    if not speculative:
        return []
    wanting = sum(ranked[0] < Urgency.SPECULATIVE for ranked in waiting)
    short = min(wanting, len(running) + wanting - slots)
    return sorted(speculative, key=lambda work: (work.arrived, work.job.id), reverse=True)[: max(0, short)]


def _waits_for_first(work: Work) -> bool:
    return work.pace.dry_at is None and not work.pace.speculative and not work.pace.unpaced


def _select(due: list[_Ranked], room: int, shares: Shares) -> list[Work]:
    """Take the most urgent; where several tenants have work of one class, by their shares."""
    if room <= 0 or not due:
        return []
    first = due[0][3].job.address.tenant
    if all(ranked[3].job.address.tenant == first for ranked in due):
        return [ranked[3] for ranked in heapq.nsmallest(room, due)]
    by_tenant: dict[str, list[_Ranked]] = {}
    for ranked in sorted(due, reverse=True):
        by_tenant.setdefault(ranked[3].job.address.tenant, []).append(ranked)
    starts = {tenant: shares.start(tenant) for tenant in by_tenant}
    taken: list[Work] = []
    while by_tenant and len(taken) < room:
        best = min(waiting[-1][0] for waiting in by_tenant.values())
        rivals = [tenant for tenant, waiting in by_tenant.items() if waiting[-1][0] == best]
        tenant = min(rivals, key=lambda name: (starts[name], by_tenant[name][-1]))
        taken.append(by_tenant[tenant].pop()[3])
        starts[tenant] += shares.cost(tenant)
        if not by_tenant[tenant]:
            del by_tenant[tenant]
    return taken
