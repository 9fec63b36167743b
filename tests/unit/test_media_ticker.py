"""The ticker: its arithmetic on a fake clock, and its shell on a loop whose time is ours."""

from __future__ import annotations

import asyncio

import pytest

from duplex.media.ticker import Ticker, TickSchedule
from duplex.units import MonoNs, ns_from_ms

pytestmark = pytest.mark.unit


def ms(value: float) -> MonoNs:
    return MonoNs(ns_from_ms(value))


def taken(schedule: TickSchedule, now_ms: float) -> list[tuple[int, int]]:
    slots = []
    while (slot := schedule.take(ms(now_ms))) is not None:
        slots.append(slot)
    return slots


def test_phases_share_a_tick_evenly() -> None:
    schedule = TickSchedule(now=ms(100), phases=5, late_drop_ms=60)
    assert schedule.due() == ms(100)
    assert taken(schedule, 119.9) == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]
    assert schedule.due() == ms(120)
    assert taken(schedule, 120) == [(1, 0)]
    assert schedule.dropped == 0


def test_a_little_late_is_caught_up_and_much_too_late_is_dropped() -> None:
    schedule = TickSchedule(now=ms(0), phases=1, late_drop_ms=60)
    assert taken(schedule, 0) == [(0, 0)]
    assert taken(schedule, 80) == [(1, 0), (2, 0), (3, 0), (4, 0)]
    assert taken(schedule, 1005) == [(50, 0)]  # not a burst of 46
    assert schedule.dropped == 45
    assert schedule.due() == ms(1020)


def test_ten_hours_do_not_drift() -> None:
    schedule = TickSchedule(now=ms(0), phases=3, late_drop_ms=60)
    schedule.resume(ms(36_000_000))
    assert abs(schedule.due() - ms(36_000_000)) <= 1
    assert schedule.dropped == 0


class Member:
    def __init__(self, *, fail: bool = False) -> None:
        self.ticks: list[int] = []
        self.fail = fail
        self.failed = False

    def tick(self, number: int, now: MonoNs) -> None:
        self.ticks.append(number)
        if self.fail:
            raise RuntimeError("defect")

    def tick_failed(self) -> None:
        self.failed = True


class FakeLoop(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next timer instead of waiting for it."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = 1000.0

    def time(self) -> float:
        return self.clock

    def call_at(self, when, callback, *args, context=None):  # type: ignore[no-untyped-def]
        def at_its_time() -> None:
            self.clock = max(self.clock, when)
            callback(*args)

        return super().call_at(self.clock, at_its_time, context=context)


@pytest.fixture
def loop() -> FakeLoop:
    loop = FakeLoop()
    yield loop
    loop.close()


def turn(loop: FakeLoop, times: int) -> None:
    async def turns() -> None:
        for _ in range(times):
            await asyncio.sleep(0)

    loop.run_until_complete(turns())


def made(loop: FakeLoop, lateness: list[float]) -> Ticker:
    async def make() -> Ticker:
        return Ticker(phases=2, late_drop_ms=60, on_lateness=lateness.append)

    return loop.run_until_complete(make())


def test_members_are_spread_and_served_in_order(loop: FakeLoop) -> None:
    lateness: list[float] = []
    ticker = made(loop, lateness)
    members = [Member() for _ in range(4)]
    for member in members:
        ticker.add(member)
    turn(loop, 40)
    for member in members:
        assert member.ticks == list(range(member.ticks[0], member.ticks[0] + len(member.ticks)))
        assert len(member.ticks) >= 10
    assert ticker.stats().members == 4
    assert lateness and max(lateness) < 0.001
    ticker.close()


def test_a_late_loop_is_measured_and_time_dropped(loop: FakeLoop) -> None:
    lateness: list[float] = []
    ticker = made(loop, lateness)
    member = Member()
    ticker.add(member)
    turn(loop, 6)
    before = member.ticks[-1]
    loop.clock += 1.0
    turn(loop, 6)
    assert max(lateness) > 0.9
    later = [n for n in member.ticks if n > before]
    assert later[0] >= before + 49
    assert ticker.stats().dropped >= 90
    ticker.close()


def test_a_member_that_fails_is_told_and_served_no_more(loop: FakeLoop) -> None:
    ticker = made(loop, [])
    bad, good = Member(fail=True), Member()
    ticker.add(bad)
    ticker.add(good)
    turn(loop, 20)
    assert bad.failed
    assert len(bad.ticks) == 1
    assert len(good.ticks) > 3
    ticker.remove(good)
    assert ticker.stats().members == 0
    served = len(good.ticks)
    turn(loop, 10)
    assert len(good.ticks) == served
