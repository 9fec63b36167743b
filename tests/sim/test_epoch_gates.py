"""Each check of the epoch is needed: with any one of them open, stale work passes its edge.

Stage results arrive after the cut here, on the production runners and egress. The probe beside each gate looks at what comes
out behind it, without asking the gate. Every scenario is run twice: as it is (nothing stale may pass), and with that one gate
open (something stale must pass, or the gate would be for nothing).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from duplex_models.sim import SimOptions

from duplex.payloads import Address, Audio, Clause, Job, JobId, LatentChunk, Latents, Pace, Prompt
from duplex.stages.contract import Role
from duplex.stages.lanes import Gate
from duplex.units import MonoNs
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim
LONG = " ".join(f"word{i}" for i in range(200))


def open_gate(gate: Gate) -> None:
    gate.admits = lambda address: True  # type: ignore[method-assign]


def world(cost_s: float = 0.0) -> tuple[Server, Session]:
    server = Server(SimOptions(vad="level", script=(LONG,), talk_s=cost_s, vocode_s=cost_s, token_s=0.02))
    session = server.connect()
    session.type_text("go")
    server.advance(1000)
    return server, session


def stale_job(server: Server, session: Session, role: Role) -> Job:
    payloads = {
        Role.THINK: Prompt(messages=()),
        Role.TALK: Clause(index=9, text="stale words", voice="default"),
        Role.VOCODE: LatentChunk(
            latents=Latents(clause=9, frames=10, hop=480, rate=24_000, words=(), data=None), first=0, last=10
        ),
    }
    address = Address(session=session.actor.session_id, lane=0, epoch=0, reply="stale")
    return Job(
        id=JobId(server.next_job()), stage=role, address=address, payload=payloads[role], pace=Pace(since=MonoNs(0))
    )


def cut(server: Server, session: Session) -> None:
    session.event(type="response.cancel")
    assert server.cuts[session.actor.session_id, 0] == 1


def submitted_after_the_cut(role: Role, opened: bool) -> bool:
    """A job that was on its way when the cut came reaches the stage's compute."""
    server, session = world()
    runner = server.runners.runners[role]
    if opened:
        open_gate(runner.queue_gate)
    computed: list[str] = []
    stage = server.runners.graph.nodes[role]
    if role is Role.THINK:
        submit = stage.submit  # type: ignore[union-attr]
        stage.submit = lambda job, emit: (computed.append(job.address.reply), submit(job, emit))  # type: ignore[union-attr]
    else:
        step = stage.step  # type: ignore[union-attr]
        stage.step = lambda jobs: (computed.extend(job.address.reply for job in jobs), step(jobs))[1]  # type: ignore[union-attr]
    job = stale_job(server, session, role)
    cut(server, session)
    server.runners.submit(job)
    server.advance(500)
    return "stale" in computed


def result_after_the_cut(role: Role, opened: bool) -> bool:
    """A result that was being computed when the cut came is delivered."""
    server, session = world(cost_s=0.2)
    if opened:
        open_gate(server.runners.runners[role].result_gate)
    server.runners.submit(stale_job(server, session, role))
    server.advance(10)
    cut(server, session)
    server.advance(1000)
    return any("delivered" in line for line in server.stale)


def engine_output_after_the_cut(opened: bool) -> bool:
    """An engine emits one more delta after it was told to abort."""
    server, session = world()
    stage = server.stage("think")
    stage.abort = lambda job: None
    if opened:
        open_gate(server.runners.runners[Role.THINK].result_gate)
    thinking = len(stage._running)
    stage.resume(next(iter(stage._running), JobId(0)))
    cut(server, session)
    for thought in list(stage._running.values()):
        thought.paused = False
        server.world.after(0.01, lambda thought=thought: stage._next(thought))
    server.advance(1000)
    return thinking > 0 and any("think delivered" in line for line in server.stale)


def audio_queued_after_the_cut(opened: bool) -> bool:
    """Audio that comes after the cut is queued for the listener."""
    server, session = world()
    egress = session.actor.egress
    if opened:
        open_gate(egress.enqueue_gate)
    cut(server, session)
    server.advance(100)
    stale = Address(session=session.actor.session_id, lane=0, epoch=0, reply="stale")
    pcm = server.stage("vocode").compute(stale_job(server, session, Role.VOCODE)).pcm
    egress.enqueue(stale, Audio(clause=0, pcm=pcm, rate=24_000, last=False), last=True)
    return egress.waiting > 0


def audio_sent_after_the_cut(opened: bool) -> bool:
    """The lane's epoch has grown, but the egress was not flushed yet when the ticker comes."""
    server, session = world()
    if opened:
        open_gate(session.actor.egress.send_gate)
    server.runners.lanes.cut(session.actor.session_id, 0, 1)
    session.actor._core.lane.epoch = 1
    server.advance(100)
    return server.total("duplex_stale_packets_total") > 0


GATES: dict[str, Callable[[bool], bool]] = {
    "think.queue": lambda opened: submitted_after_the_cut(Role.THINK, opened),
    "talk.queue": lambda opened: submitted_after_the_cut(Role.TALK, opened),
    "vocode.queue": lambda opened: submitted_after_the_cut(Role.VOCODE, opened),
    "think.result": engine_output_after_the_cut,
    "talk.result": lambda opened: result_after_the_cut(Role.TALK, opened),
    "vocode.result": lambda opened: result_after_the_cut(Role.VOCODE, opened),
    "egress.enqueue": audio_queued_after_the_cut,
    "egress.send": audio_sent_after_the_cut,
}


@pytest.mark.parametrize("gate", GATES)
def test_nothing_stale_passes(gate: str) -> None:
    assert not GATES[gate](False)


@pytest.mark.parametrize("gate", GATES)
def test_without_the_gate_something_stale_passes(gate: str) -> None:
    assert GATES[gate](True)


def test_every_gate_of_the_product_is_covered() -> None:
    server = Server()
    session = server.connect()
    edges = {
        gate.edge for runner in server.runners.runners.values() for gate in (runner.queue_gate, runner.result_gate)
    }
    edges |= {session.actor.egress.enqueue_gate.edge, session.actor.egress.send_gate.edge}
    reply_edges = {edge for edge in edges if not edge.startswith(("vad", "end_of_turn", "transcribe"))}
    assert reply_edges == set(GATES)


def test_queued_work_is_dropped_by_the_cut_and_never_computed() -> None:
    server, session = world(cost_s=0.3)
    runner = server.runners.runners[Role.VOCODE]
    for _ in range(3):
        server.runners.submit(stale_job(server, session, Role.VOCODE))
    cut(server, session)
    assert runner.load().queued == 0
