"""When a stage that went down is started again."""

import pytest

from duplex.config import StageSettings
from duplex.stages.restarts import RestartPolicy, State
from duplex.units import MonoNs, ns_from_seconds

pytestmark = pytest.mark.unit
SETTINGS = StageSettings(
    restart_s_first=1, restart_s_max=6, restarts_max=4, restart_window_s=100, restart_slow_s=30, step_timeout_s=1
)


def at(seconds: float) -> MonoNs:
    return MonoNs(ns_from_seconds(seconds))


def fail(policy: RestartPolicy, seconds: float) -> float:
    """Let the stage go down; return the wait until it is tried."""
    policy.failed("crash", at(seconds))
    until = policy.next_deadline()
    assert until is not None
    return until / 1e9 - seconds


def restart(policy: RestartPolicy) -> None:
    until = policy.next_deadline()
    assert until is not None
    policy.begin(until)
    policy.started()


def test_a_stage_goes_down_waits_starts_and_runs() -> None:
    policy = RestartPolicy(SETTINGS)
    assert (policy.state, policy.reason, policy.next_deadline()) == (State.RUNNING, None, None)
    assert fail(policy, 10) == 1
    assert (policy.state, policy.reason) == (State.DOWN, "crash")
    policy.begin(at(11))
    assert (policy.state, policy.next_deadline()) == (State.STARTING, None)
    policy.started()
    assert (policy.state, policy.reason) == (State.RUNNING, None)


def test_the_wait_doubles_up_to_its_bound_whether_a_start_fails_or_a_running_stage() -> None:
    policy = RestartPolicy(SETTINGS)
    assert fail(policy, 0) == 1
    policy.begin(at(1))
    assert fail(policy, 2) == 2
    restart(policy)
    assert fail(policy, 10) == 4
    restart(policy)
    assert fail(policy, 20) == 6


def test_failures_are_forgotten_after_the_window() -> None:
    policy = RestartPolicy(SETTINGS)
    assert fail(policy, 0) == 1
    restart(policy)
    assert fail(policy, 99) == 2
    restart(policy)
    assert fail(policy, 199.5) == 1


def test_a_stage_that_fails_too_often_is_given_up_and_tried_slowly_until_it_holds() -> None:
    policy = RestartPolicy(SETTINGS)
    for second in range(4):
        fail(policy, second * 10)
        assert not policy.given_up
        restart(policy)
    assert fail(policy, 40) == 30
    assert policy.given_up
    policy.begin(at(70))
    assert fail(policy, 71) == 30
    restart(policy)
    assert (policy.state, policy.given_up) == (State.RUNNING, False)
    assert fail(policy, 300) == 1


def test_what_cannot_happen_raises_and_changes_nothing() -> None:
    policy = RestartPolicy(SETTINGS)
    with pytest.raises(AssertionError, match="running cannot have started"):
        policy.started()
    fail(policy, 0)
    with pytest.raises(AssertionError, match="down cannot have failed"):
        policy.failed("hang", at(1))
    with pytest.raises(AssertionError, match="not over"):
        policy.begin(at(0.5))
    assert (policy.state, policy.reason) == (State.DOWN, "crash")
