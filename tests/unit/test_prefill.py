"""Reading ahead alone: one piece at a time, none twice, and every one of them counted once."""

from __future__ import annotations

import itertools

import pytest

from duplex.payloads import Address, Job, JobId, Message, Prompt, Role, StageError, TextDelta
from duplex.session.effects import Drop, Effect, Observe, Outbox, Submit
from duplex.session.prefill import Prefill
from duplex.units import MonoNs

pytestmark = pytest.mark.unit
ADDRESS = Address(session="s", lane=0, epoch=3)
READ = TextDelta(text="", tokens=0, finish="read")
ONE, TWO = ((Message(role="user", text=text),) for text in ("one", "one two"))


class Rig:
    """A prefill over a bare outbox."""

    def __init__(self) -> None:
        numbers = itertools.count(1)
        self.outbox = Outbox(lambda: JobId(next(numbers)))
        self.prefill = Prefill(self.outbox)

    def drain(self) -> list[Effect]:
        effects: list[Effect] = []
        while (effect := self.outbox.poll()) is not None:
            effects.append(effect)
        return effects

    def read(self, messages: tuple[Message, ...]) -> list[Job]:
        self.prefill.read(messages, ADDRESS, MonoNs(7))
        return [effect.job for effect in self.drain() if isinstance(effect, Submit)]

    def outcomes(self) -> list[str]:
        return [effect.labels["outcome"] for effect in self.drain() if isinstance(effect, Observe)]


def test_it_is_work_for_idle_time_and_asks_for_no_answer() -> None:
    (job,) = Rig().read(ONE)
    assert job.payload == Prompt(messages=ONE, prefill=True)
    assert (job.stage, job.address, job.address.reply) == (Role.THINK, ADDRESS, None)
    assert job.pace.idle_only and job.pace.speculative and job.pace.since == MonoNs(7)


def test_there_is_one_at_a_time_and_nothing_is_read_twice() -> None:
    rig = Rig()
    assert rig.read(()) == []
    (first,) = rig.read(ONE)
    assert rig.read(TWO) == []
    assert rig.prefill.take(first.id, READ) and rig.outcomes() == ["read"]
    assert rig.read(ONE) == []
    assert len(rig.read(TWO)) == 1


@pytest.mark.parametrize(
    ("kind", "outcome"), [("busy", "busy"), ("preempted", "preempted"), ("failed", "failed"), ("timeout", "failed")]
)
def test_what_was_not_read_is_read_the_next_time(kind: str, outcome: str) -> None:
    rig = Rig()
    (job,) = rig.read(ONE)
    assert rig.prefill.take(job.id, StageError(reason="no", kind=kind))
    assert rig.outcomes() == [outcome]
    assert len(rig.read(ONE)) == 1


def test_one_that_is_not_wanted_any_more_is_taken_back_once() -> None:
    rig = Rig()
    rig.prefill.drop()
    assert rig.drain() == []
    (job,) = rig.read(ONE)
    rig.prefill.drop()
    effects = rig.drain()
    assert effects[0] == Drop(role=Role.THINK, job=job.id)
    assert [effect.labels["outcome"] for effect in effects if isinstance(effect, Observe)] == ["dropped"]
    assert not rig.prefill.take(job.id, READ)
    rig.prefill.drop()
    assert rig.drain() == []
