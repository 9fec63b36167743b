"""Simulated processors: how steps share cores."""

from __future__ import annotations

import pytest

from duplex.units import MonoNs, seconds_from_ns
from loadgen.sim.clock import Clock, Device, SharedDevice
from loadgen.sim.profile import Cost

pytestmark = pytest.mark.unit

LONG = MonoNs(100_000_000_000)


class Bench:
    """A clock, a device, and when each step was done."""

    def __init__(self, cores: float, shared: bool = True) -> None:
        self.clock = Clock()
        self.device = (SharedDevice if shared else Device)(self.clock, cores)
        self.done: dict[str, float] = {}

    def run(self, name: str, seconds: float, at: float = 0.0, cost: Cost | None = None) -> None:
        def finished() -> None:
            self.done[name] = seconds_from_ns(self.clock.now())

        self.clock.after(at, lambda: self.device.run(seconds, finished, cost or Cost()))

    def until_idle(self) -> dict[str, float]:
        self.clock.advance(LONG)
        return {name: pytest.approx(at, abs=1e-6) for name, at in self.done.items()}


def test_steps_that_fit_do_not_slow_each_other() -> None:
    bench = Bench(cores=2)
    bench.run("a", 1.0)
    bench.run("b", 0.5)
    assert {"a": 1.0, "b": 0.5} == bench.until_idle()
    assert bench.device.busy_s == pytest.approx(1.5)


def test_steps_that_do_not_fit_share_the_cores_and_speed_up_as_others_end() -> None:
    bench = Bench(cores=1)
    bench.run("long", 1.0)
    bench.run("short", 0.2, at=0.5)
    # alone until 0.5; half speed until short has its 0.2 at 0.9; long's last 0.3 alone
    assert {"short": 0.9, "long": 1.2} == bench.until_idle()
    assert bench.device.busy_s == pytest.approx(1.2)


def test_a_step_of_several_threads_weighs_as_much() -> None:
    bench = Bench(cores=2)
    bench.run("two", 0.6, cost=Cost(cores=2))
    bench.run("one", 0.6)
    assert {"two": 0.9, "one": 0.9} == bench.until_idle()


def test_threads_that_wait_for_each_other_lose_more_than_their_share() -> None:
    bench = Bench(cores=2)
    bench.run("prompt", 0.3, cost=Cost(cores=2, held_up=2))
    bench.run("other", 1.0)
    # two thirds of the speed, and the prompt a third of it, until it is done at 0.9; other has 0.4 left
    assert {"prompt": 0.9, "other": 1.3} == bench.until_idle()


def test_alone_a_step_has_all_it_wants() -> None:
    bench = Bench(cores=1.4)
    bench.run("prompt", 0.3, cost=Cost(cores=1.4, held_up=3))
    assert {"prompt": 0.3} == bench.until_idle()


def test_a_device_that_is_not_shared_takes_one_after_the_other() -> None:
    bench = Bench(cores=1, shared=False)
    bench.run("a", 0.4, cost=Cost(cores=3, held_up=2))
    bench.run("b", 0.2)
    assert {"a": 0.4, "b": 0.6} == bench.until_idle()


def test_a_step_of_no_time_is_done_at_once() -> None:
    bench = Bench(cores=1)
    bench.run("nothing", 0.0)
    bench.run("something", 0.5)
    assert {"nothing": 0.0, "something": 0.5} == bench.until_idle()
