"""The registry of sessions that can be resumed: tokens, windows, bounds."""

from __future__ import annotations

import pytest

from duplex.actor.detached import DetachedSessions, Owner
from duplex.units import MonoNs, ns_from_seconds

pytestmark = pytest.mark.unit

WINDOW = ns_from_seconds(30)
OURS = Owner(tenant="ours", key="app")


def at(seconds: float) -> MonoNs:
    return MonoNs(ns_from_seconds(seconds))


def registry(window_ns: int = WINDOW, detached_max: int = 2) -> DetachedSessions:
    return DetachedSessions(window_ns, detached_max)


def test_a_token_finds_its_session_for_its_owner_alone() -> None:
    sessions = registry()
    sessions.offer("a", OURS, "token-a")
    assert sessions.find("token-a", OURS) == "a"
    assert sessions.find("token-b", OURS) is None
    assert sessions.find("token-a", Owner(tenant="theirs", key="app")) is None
    assert sessions.find("token-a", Owner(tenant="ours", key="other")) is None
    assert sessions.find("token-a", Owner(tenant="ours", key=None)) is None


def test_a_token_is_spent_once_its_successor_is_there() -> None:
    sessions = registry()
    sessions.offer("a", OURS, "first")
    sessions.detach("a", at(1))
    assert sessions.attach("a")
    assert sessions.find("first", OURS) == "a", "the answer may have got lost on the way"
    sessions.offer("a", OURS, "second")
    assert sessions.find("first", OURS) is None
    assert sessions.find("second", OURS) == "a"


def test_the_window_runs_from_the_loss_and_ends_at_its_end() -> None:
    sessions = registry()
    sessions.offer("a", OURS, "token")
    assert sessions.detach("a", at(5)) == at(35)
    assert sessions.expired(MonoNs(at(35) - 1)) == []
    assert sessions.expired(at(35)) == ["a"]
    sessions.forget("a")
    assert (sessions.detached, sessions.find("token", OURS), sessions.expired(at(99))) == (0, None, [])


def test_a_return_that_does_not_come_up_has_only_the_time_that_is_left() -> None:
    sessions = registry()
    sessions.offer("a", OURS, "token")
    sessions.detach("a", at(0))
    assert sessions.attach("a")
    assert sessions.expired(at(31)) == [], "it is connecting"
    assert sessions.detach("a", at(31)) == at(30)
    assert sessions.expired(at(31)) == ["a"]


def test_a_return_that_came_up_has_a_whole_window_again() -> None:
    sessions = registry()
    sessions.offer("a", OURS, "token")
    sessions.detach("a", at(0))
    sessions.attach("a")
    sessions.offer("a", OURS, "next")
    assert sessions.detach("a", at(40)) == at(70)


def test_a_half_open_session_is_taken_over() -> None:
    sessions = registry()
    sessions.offer("a", OURS, "token")
    assert not sessions.attach("a")
    assert sessions.detached == 0


def test_what_cannot_wait_is_refused() -> None:
    sessions = registry(detached_max=1)
    for name in "ab":
        sessions.offer(name, OURS, f"token-{name}")
    assert sessions.detach("a", at(0)) is not None
    assert sessions.detach("b", at(0)) is None, "the table is full"
    assert sessions.waiting() == ["a"]
    assert sessions.detach("never offered", at(0)) is None
    sessions.forget("a")
    assert sessions.detach("b", at(0)) is not None
    off = registry(window_ns=0)
    off.offer("a", OURS, "token")
    assert off.detach("a", at(0)) is None
