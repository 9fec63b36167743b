"""Faults of a simulation: a stage that stalls or breaks, a client that vanishes or reads slowly."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from duplex.units import MonoNs, ns_from_seconds

if TYPE_CHECKING:
    from loadgen.sim.world import World

Kind = Literal["stall", "crash", "disconnect", "slow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that goes wrong."""

    kind: Kind
    """stall: steps that begin wait until it is over. crash: they fail. disconnect: people hang up in the middle.
    slow: their packets come later by a second's jitter."""
    at_s: float
    for_s: float = 0.0
    """stall and crash."""
    stage: str = "vocode"
    """stall and crash."""
    share: float = 0.5
    """disconnect and slow: of those who are there."""


def parse(text: str) -> Fault:
    """Read `KIND[:STAGE]@AT[+FOR]`, e.g. `stall:vocode@30+2` or `disconnect@60`.

    Raises:
        ValueError: it is not of that form.
    """
    head, _, times = text.partition("@")
    kind, _, stage = head.partition(":")
    at, _, length = times.partition("+")
    known: tuple[Kind, ...] = ("stall", "crash", "disconnect", "slow")
    for each in known:
        if kind == each:
            try:
                return Fault(kind=each, at_s=float(at), for_s=float(length or 0), stage=stage or "vocode")
            except ValueError:
                break
    raise ValueError(f"fault {text!r}: expected KIND[:STAGE]@SECONDS[+SECONDS] with KIND one of {', '.join(known)}")


def apply_faults(world: World, faults: Sequence[Fault], rng: random.Random) -> None:
    """Put the faults on the world's clock."""
    for fault in faults:
        world.clock.call_at(MonoNs(ns_from_seconds(fault.at_s)), lambda fault=fault: _happen(world, fault, rng))  # type: ignore[misc]


def _happen(world: World, fault: Fault, rng: random.Random) -> None:
    until = MonoNs(world.clock.now() + ns_from_seconds(fault.for_s))
    if fault.kind in ("stall", "crash"):
        stages = {stage.spec.name: stage for stage in world.runners.graph.nodes.values()}
        if fault.stage not in stages:
            raise ValueError(f"fault: there is no stage {fault.stage!r}")
        setattr(stages[fault.stage], "stalled_until" if fault.kind == "stall" else "broken_until", until)
        return
    for person in [person for person in world.people.values() if rng.random() < fault.share]:
        if fault.kind == "disconnect":
            person.vanish()
        else:
            person.session.listener.slow_down(1000)
