from collections.abc import Iterable
from typing import Any

import pytest
from duplex_models.sim import SimOptions, make
from duplex_models.sim.stages import SimTalk, SimThink, loop_after
from hypothesis import given
from hypothesis import strategies as st

from duplex.config import PacingSettings, SchedulingSettings
from duplex.pacing.fairness import Shares
from duplex.pacing.policies import ChunkDeadline, Fcfs, FcfsCapped, Listener, Oracle, RoundRobin, make_policy
from duplex.pacing.policy import Policy, Work, WorkState
from duplex.payloads import Address, Clause, Job, JobId, Pace, Utterance, VoiceWindow
from duplex.session.clauses import ClauseSplitter
from duplex.stages.contract import ModelPack, NodeSpec, PackError, Role
from duplex.stages.graph import build_graph
from duplex.stages.plan import BatchPlan, EnginePlan, plan_batch, plan_engine, rounds
from duplex.stages.queue import StageQueue
from duplex.units import MonoNs, Samples, Span, ns_from_ms

pytestmark = pytest.mark.unit
SPEC = NodeSpec(name="talk", role=Role.TALK, takes=Clause, gives=Clause, unit="clause", batch_max=3)


def job(number: int, session: str = "s", lane: int = 0, epoch: int = 0, tenant: str = "default", **pace: Any) -> Job:
    return Job(
        id=JobId(number), stage=Role.TALK, address=Address(session=session, lane=lane, epoch=epoch, reply="r", tenant=tenant),
        payload=Clause(index=0, text="hello", voice="v"), pace=Pace(**({"since": MonoNs(0)} | pace)),
    )  # fmt: skip


LISTENER = Listener(1000, 4)


def work(number: int, tenant: str = "default", state: WorkState = WorkState.WAITING, **pace: Any) -> Work:
    made = job(number, tenant=tenant, **pace)
    return Work(job=made, pace=made.pace, arrived=MonoNs(number), state=state)


def batch(works: list[Work], now_ms: int = 0, policy: Policy = LISTENER, room: int = 3) -> BatchPlan:
    return plan_batch(works, MonoNs(ns_from_ms(now_ms)), ns_from_ms(10), policy, room, lambda job: None, Shares({}))


def engine(
    works: list[Work], slots: int, now_ms: int = 0, pausable: bool = True, policy: Policy = LISTENER
) -> EnginePlan:
    return plan_engine(works, MonoNs(ns_from_ms(now_ms)), ns_from_ms(10), policy, slots, pausable, Shares({}))


def ids(works: Iterable[Work]) -> list[int]:
    return [work.job.id for work in works]


def ms(value: int) -> MonoNs:
    return MonoNs(ns_from_ms(value))


def test_with_more_work_than_room_a_unit_takes_as_many_rounds() -> None:
    playing = [work(n, dry_at=ms(25)) for n in range(1, 8)]
    held = [work(n, dry_at=ms(900), hold_until=ms(400)) for n in range(8, 20)]
    assert [rounds(playing[:n], ms(0), 3) for n in (0, 1, 3, 4, 6, 7)] == [1, 1, 1, 2, 2, 3]
    assert rounds([*playing, *held, work(20, blocked=True), work(21, speculative=True)], ms(0), 3) == 3
    # Alone, 25 ms are time enough before units of 10 ms, so first audio goes before; in the last of three rounds they are not.
    first = work(30)
    assert ids(batch([playing[0], first], room=1).batch) == [30]
    assert ids(batch([*playing[:2], first], room=1).batch) == [1]


# Batches. -------------------------------------------------------------------------------------------------------------


def test_a_held_job_does_not_ride_along_and_tells_when_to_wake() -> None:
    held, first = work(1, dry_at=ms(900), hold_until=ms(400)), work(2)
    plan = batch([held, first])
    assert ids(plan.batch) == [2]
    plan = batch([held])
    assert (plan.batch, plan.wake_at) == ((), ms(400))
    assert ids(batch([held], now_ms=400).batch) == [1]


def test_what_has_no_credit_waits_without_a_time() -> None:
    plan = batch([work(1, blocked=True)])
    assert (plan.batch, plan.wake_at) == ((), None)


def test_only_jobs_of_the_most_urgent_ones_key_go_together() -> None:
    works = [work(1, session="a"), work(2, session="b"), work(3, session="a")]
    plan = plan_batch(works, MonoNs(0), 0, LISTENER, 3, lambda job: job.address.session, Shares({}))
    assert ids(plan.batch) == [1, 3]


@given(st.lists(st.tuples(st.integers(0, 2000), st.one_of(st.none(), st.integers(0, 2000))), min_size=1, max_size=40))
def test_every_job_comes_out_once_and_urgent_ones_first(paces: list[tuple[int, int | None]]) -> None:
    waiting = [
        work(number, since=ms(since), **({} if dry is None else {"dry_at": ms(dry)}))
        for number, (since, dry) in enumerate(paces)
    ]
    out: list[Work] = []
    left = list(waiting)
    while left:
        (chosen,) = batch(left, now_ms=2000, room=1).batch
        left.remove(chosen)
        out.append(chosen)
    ranks = [LISTENER.rank(w, ms(2000), ns_from_ms(10)) for w in out]
    assert ranks == sorted(ranks)


def test_first_audio_is_promoted_at_its_deadline() -> None:
    starving, dry = work(1, since=ms(0)), work(2, dry_at=ms(1008))
    assert ids(batch([starving, dry], now_ms=900, room=1).batch) == [1]  # the other one still has time
    assert ids(batch([starving, dry], now_ms=1000, room=1).batch) == [1]  # both critical: less time left goes first
    early = work(3, since=ms(600))
    assert ids(batch([early, dry], now_ms=1000, room=1).batch) == [2]


def test_those_who_have_time_do_not_lengthen_the_step_of_a_first_reply() -> None:
    soon, later, first = work(1, dry_at=ms(39)), work(2, dry_at=ms(500)), work(3)
    assert ids(batch([soon, later, first]).batch) == [3, 1]
    assert ids(batch([soon, later]).batch) == [1, 2]
    running = work(2, state=WorkState.RUNNING, dry_at=ms(500))
    assert ids(engine([running, first], slots=4).pause) == [2]


def test_what_may_be_thrown_away_shares_no_step_with_those_who_cannot_wait() -> None:
    draft, first, dry, paced = work(1, speculative=True), work(2), work(3, dry_at=ms(5)), work(4, dry_at=ms(500))
    assert ids(batch([draft]).batch) == [1]
    assert ids(batch([draft, first]).batch) == [2]
    assert ids(batch([draft, dry]).batch) == [3]
    assert ids(batch([draft, paced], room=1).batch) == [4]
    assert ids(batch([draft, paced]).batch) == [4, 1]  # who has time to spare loses nothing by it
    assert batch([work(5, speculative=True, blocked=True)]).batch == ()


# Engines. -------------------------------------------------------------------------------------------------------------


def test_a_waiting_first_reply_takes_the_slot_of_one_that_is_ahead() -> None:
    ahead = work(1, state=WorkState.RUNNING, dry_at=ms(5000))
    plan = engine([ahead, work(2)], slots=1)
    assert (ids(plan.pause), ids(plan.start), ids(plan.order)) == ([1], [2], [2])


def test_an_engine_that_can_pause_sets_speculative_work_aside_for_anyone_who_needs_its_place_or_its_time() -> None:
    draft = work(1, state=WorkState.RUNNING, speculative=True)
    first, paced = work(2), work(3, dry_at=ms(500))
    plan = engine([draft, paced], slots=1)
    assert (ids(plan.pause), ids(plan.start), ids(plan.abort)) == ([1], [3], [])
    plan = engine([draft, first], slots=4)
    assert (ids(plan.pause), ids(plan.order), plan.wake_at) == ([1], [2], ms(20))  # looked at again soon
    assert ids(engine([draft, paced], slots=4).order) == [3, 1]


def test_an_engine_that_cannot_pause_aborts_the_newest_speculative_work_for_others() -> None:
    drafts = [work(n, state=WorkState.RUNNING, speculative=True) for n in (1, 2)]
    plan = engine([*drafts, work(3), work(4, speculative=True)], slots=2, pausable=False)
    assert (ids(plan.abort), ids(plan.start), ids(plan.order), plan.pause) == ([2], [3], [1, 3], ())
    plan = engine([*drafts, work(3)], slots=3, pausable=False)
    assert (ids(plan.abort), ids(plan.start)) == ([], [3])  # there is room
    running = work(5, state=WorkState.RUNNING)
    plan = engine([running, work(6, speculative=True)], slots=4, pausable=False)
    assert (ids(plan.start), ids(plan.order)) == ([], [5])  # nor does it begin beside a first reply
    assert ids(engine([running, work(7)], slots=1, pausable=False).order) == [5]


def test_one_of_the_same_class_does_not_take_a_running_ones_slot() -> None:
    running = work(1, state=WorkState.RUNNING, dry_at=ms(5000))
    plan = engine([running, work(2, dry_at=ms(4000))], slots=1)
    assert (plan.pause, plan.start, ids(plan.order)) == ((), (), [1])


def test_a_running_job_at_its_target_is_paused_and_resumed_when_it_is_due() -> None:
    ahead = work(1, state=WorkState.RUNNING, dry_at=ms(900), hold_until=ms(400))
    plan = engine([ahead], slots=4)
    assert (ids(plan.pause), plan.wake_at) == ([1], ms(400))
    ahead.state = WorkState.PAUSED
    assert ids(engine([ahead], slots=4, now_ms=400).resume) == [1]


def test_an_engine_that_cannot_pause_runs_what_it_has_begun() -> None:
    held = work(1, state=WorkState.RUNNING, dry_at=ms(900), hold_until=ms(400))
    plan = engine([held, work(2)], slots=1, pausable=False)
    assert (plan.pause, plan.start, ids(plan.order)) == ((), (), [1])
    assert ids(engine([held, work(2)], slots=2, pausable=False).start) == [2]


def test_paused_work_takes_no_slot() -> None:
    paused = [work(n, state=WorkState.PAUSED, blocked=True) for n in range(4)]
    assert ids(engine([*paused, work(9)], slots=1).start) == [9]


def test_work_without_a_place_is_looked_at_again_though_nothing_else_happens() -> None:
    rider = work(1, state=WorkState.RUNNING, dry_at=ms(300))
    plan = engine([rider, work(2)], slots=8)
    assert ids(plan.pause) == [1] and plan.wake_at == ms(20)
    assert engine([work(1, dry_at=ms(300)), work(2, dry_at=ms(300))], slots=1).wake_at == ms(20)
    assert engine([work(1, dry_at=ms(300))], slots=1).wake_at is None


def test_a_text_reply_is_behind_every_listener() -> None:
    text = work(1, state=WorkState.RUNNING, unpaced=True)
    listener = work(2, dry_at=ms(5000))
    assert ids(engine([text, listener], slots=1, now_ms=30_000 - 29_000).start) == []  # its class keeps its slot
    assert ids(batch([text, listener], room=1).batch) == [2]
    paced = work(3, state=WorkState.RUNNING, dry_at=ms(300))
    assert engine([text, paced], slots=8).pause == ()  # nobody waits for first audio


def test_held_work_wakes_before_it_would_run_dry() -> None:
    held = work(1, dry_at=ms(2000), hold_until=ms(1200))
    plan = plan_batch([held], ms(0), ns_from_ms(900), LISTENER, 1, lambda job: None, Shares({}))
    assert plan.wake_at == ms(1100)


# Policies. ------------------------------------------------------------------------------------------------------------


def test_fcfs_takes_the_order_of_arrival_and_holds_nothing() -> None:
    assert ids(batch([work(1, dry_at=ms(9000), hold_until=ms(8000)), work(2)], policy=Fcfs(), room=1).batch) == [1]


def test_fcfs_capped_takes_the_order_of_arrival_of_what_is_not_ahead() -> None:
    works = [work(1, dry_at=ms(9000), hold_until=ms(8000)), work(2, dry_at=ms(100)), work(3)]
    assert ids(batch(works, policy=FcfsCapped()).batch) == [2, 3]


def test_round_robin_serves_whom_it_served_longest_ago() -> None:
    works = [work(1), work(2), work(3)]
    for w, served in zip(works, (9, 0, 4), strict=True):
        w.served = served
    assert ids(batch(works, policy=RoundRobin(), room=2).batch) == [2, 3]


def test_chunk_deadline_presses_within_a_second_of_the_newest_chunk() -> None:
    policy = ChunkDeadline(1000)
    far = work(1, dry_at=ms(9000), newest_starts=ms(2500))
    near = work(2, dry_at=ms(9000), newest_starts=ms(1900))
    assert ids(batch([far, near, work(3)], now_ms=1000, policy=policy).batch) == [2, 3, 1]


def test_the_oracle_makes_nothing_that_will_not_be_heard() -> None:
    oracle = Oracle(1000, 4, lambda address: ms(500))
    works = [work(1, dry_at=ms(400)), work(2, dry_at=ms(600))]
    assert ids(batch(works, policy=oracle).batch) == [1]
    with pytest.raises(ValueError, match="simulator only"):
        make_policy(SchedulingSettings(policy="oracle"), PacingSettings())


@pytest.mark.parametrize("name", ["fcfs", "fcfs_capped", "round_robin", "chunk_deadline", "listener"])
def test_a_policy_is_chosen_by_its_name(name: Any) -> None:
    assert make_policy(SchedulingSettings(policy=name), PacingSettings()).name == name


def test_idle_time_of_a_dedicated_device_works_ahead_while_nobody_interrupts() -> None:
    policy = Listener(1000, 2, spare_lead_ms=8000, spare_cut_share=0.3)
    held = work(1, dry_at=ms(9000), hold_until=ms(8600))
    held.dedicated = True
    assert policy.spare_ns == 0 and batch([held], policy=policy).batch == ()  # it knows nobody yet
    for _ in range(200):
        policy.reply_begins()
    assert policy.spare_ns > ns_from_ms(7500)
    assert ids(batch([held], now_ms=1000, policy=policy).batch) == [1]
    paced = work(2, dry_at=ms(1500))
    assert ids(batch([held, paced], now_ms=1000, policy=policy, room=1).batch) == [2]
    first = work(3)
    first.dedicated = True
    assert ids(batch([held, first], now_ms=1000, policy=policy).batch) == [3, 1]  # it rides along behind a first reply
    assert ids(batch([held, first], now_ms=1000, policy=policy, room=1).batch) == [3]
    held.dedicated = False
    assert ids(batch([held, work(4)], now_ms=8700, policy=policy).batch) == [4]  # where a rider costs in full, it waits
    plan = batch([held], now_ms=1000, policy=policy)
    assert plan.batch == () and plan.wake_at == ms(8600)
    for _ in range(60):
        policy.reply_begins()
        policy.reply_cut()
    assert policy.spare_ns == 0


# Tenants. -------------------------------------------------------------------------------------------------------------


def served(weights: dict[str, float], waiting: dict[str, int], services: int) -> list[str]:
    shares, number = Shares(weights), 0
    works: list[Work] = []
    for tenant, count in waiting.items():
        for _ in range(count):
            number += 1
            works.append(work(number, tenant=tenant))
    order: list[str] = []
    for _ in range(services):
        (chosen,) = plan_batch(works, MonoNs(0), 0, LISTENER, 1, lambda job: None, shares).batch
        works.remove(chosen)
        order.append(chosen.job.address.tenant)
    return order


def test_tenants_share_a_class_by_weight() -> None:
    order = served({"gold": 3.0}, {"gold": 60, "plain": 60}, services=40)
    assert order.count("gold") == 30


def test_a_tenant_alone_gets_everything_and_no_bonus_for_having_been_idle() -> None:
    assert served({}, {"a": 5}, services=5) == ["a"] * 5
    shares = Shares({})
    for _ in range(50):
        shares.charge("a")
    assert shares.start("b") == shares.start("a") - 1  # it begins now, not fifty services ago


def test_shares_count_inside_a_class_only() -> None:
    shares = Shares({})
    for _ in range(50):
        shares.charge("busy")
    works = [work(1, tenant="busy", dry_at=ms(5)), work(2, tenant="idle", dry_at=ms(5000))]
    plan = plan_batch(works, MonoNs(0), ns_from_ms(10), LISTENER, 1, lambda job: None, shares)
    assert ids(plan.batch) == [1]


# Queues. --------------------------------------------------------------------------------------------------------------


def test_a_cut_drops_older_epochs_of_its_lane_only() -> None:
    q = StageQueue(SPEC, media_ms_max=1000)
    for number, (lane, epoch) in enumerate([(0, 0), (0, 1), (1, 0)]):
        q.put(job(number, lane=lane, epoch=epoch), MonoNs(0))
    q.put(job(9, session="other"), MonoNs(0))
    assert ids(q.cut("s", lane=0, epoch=1)) == [0]
    assert q.stats().jobs == 3


def test_a_full_queue_refuses_and_keeps_what_it_has() -> None:
    spec = NodeSpec(name="vad", role=Role.VAD, takes=VoiceWindow, gives=VoiceWindow, unit="w")
    q = StageQueue(spec, media_ms_max=64)

    def window(number: int) -> Job:
        span = Span(Samples(number * 1536), Samples((number + 1) * 1536))
        payload = VoiceWindow(span=span, pcm=None)  # type: ignore[arg-type]
        return Job(
            id=JobId(number),
            stage=Role.VAD,
            address=Address(session="s", lane=-1, epoch=0),
            payload=payload,
            pace=Pace(since=MonoNs(0)),
        )

    assert q.put(window(1), MonoNs(0)) is None
    assert q.put(window(2), MonoNs(0)) is None
    refused = q.put(window(3), MonoNs(0))
    assert refused is not None and refused.kind == "refused"
    assert (q.stats().jobs, q.stats().media_ms) == (2, 64)


def test_a_queue_takes_only_what_its_stage_takes() -> None:
    wrong = Job(
        id=JobId(1), stage=Role.TALK, address=Address(session="s", lane=0, epoch=0),
        payload=Utterance(span=Span(Samples(0), Samples(1)), pcm=None), pace=Pace(since=MonoNs(0)),  # type: ignore[arg-type]
    )  # fmt: skip
    refused = StageQueue(SPEC, media_ms_max=1000).put(wrong, MonoNs(0))
    assert refused is not None and "takes Clause" in refused.reason


def test_a_session_that_was_served_comes_later_in_the_round() -> None:
    q = StageQueue(SPEC, media_ms_max=1000)
    for number in (1, 2):
        q.put(job(number, session=f"s{number}"), MonoNs(0))
    first = next(iter(q.works))
    q.take(first)
    q.put(job(3, session="s1"), MonoNs(0))
    assert [work.served for work in q.works] == [0, 1]


# Graphs and clauses. --------------------------------------------------------------------------------------------------


def test_graphs_are_checked_when_they_are_built() -> None:
    assert build_graph(make(SimOptions(vad="level"))).has(Role.VOCODE)
    stages = make(SimOptions(vad="level")).stages
    with pytest.raises(PackError, match="two stages of role talk"):
        build_graph(ModelPack(name="x", stages=(*stages, SimTalk(100, 0, False)), edges=()))
    with pytest.raises(PackError, match="no stage of role"):
        build_graph(ModelPack(name="x", stages=stages[:2], edges=()))
    with pytest.raises(PackError, match="lead nowhere"):
        build_graph(ModelPack(name="x", stages=stages, edges=()))
    with pytest.raises(PackError, match="gives"):
        build_graph(ModelPack(name="x", stages=stages, edges=((Role.VAD, Role.VOCODE), (Role.TALK, Role.VOCODE))))
    think = SimThink(("hi",), 0, 0, True, 1, loop_after)
    think.spec = NodeSpec(name="bad", role=Role.THINK, takes=Clause, gives=Clause, unit="x")
    with pytest.raises(PackError, match="does not fit"):
        build_graph(ModelPack(name="x", stages=(think,), edges=()))


@given(st.lists(st.text(alphabet="ab .,!?\n3:;Mr", max_size=12), max_size=30))
def test_clauses_joined_are_the_text_to_the_character(deltas: list[str]) -> None:
    splitter = ClauseSplitter(7)
    clauses = [clause for delta in deltas for clause in splitter.push(delta)] + splitter.finish()
    assert "".join(clauses) == "".join(deltas)


def split(text: str) -> list[str]:
    splitter = ClauseSplitter(7)
    clauses: list[str] = []
    for character in text:
        clauses += splitter.push(character)
    return clauses + splitter.finish()


def test_clauses_end_where_a_speaker_would_pause() -> None:
    assert split("The capital of France is Paris. It is a very big city, and it lies on the Seine.") == [
        "The capital of France is Paris.", " It is a very big city,", " and it lies on the Seine.",
    ]  # fmt: skip
    assert split("Pi is about 3.14159 and Mr. Smith knows it.")[0].endswith("Mr. Smith")
    assert split("one two three four five six seven eight nine ten")[0] == "one two three four five six seven"
    assert split("...") == ["..."]


# Idle time. -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pausable", [True, False])
def test_work_for_idle_time_runs_in_an_engine_alone_and_ends_when_other_work_comes(pausable: bool) -> None:
    waiting, running = work(1, idle_only=True), work(2, idle_only=True, state=WorkState.RUNNING)
    plan = engine([waiting], slots=1, pausable=pausable)
    assert (ids(plan.start), ids(plan.order), plan.abort) == ([1], [1], ())
    plan = engine([running], slots=1, pausable=pausable)
    assert (plan.start, ids(plan.order), plan.abort, plan.pause) == ((), [2], (), ())
    for other in (work(3), work(3, speculative=True), work(3, state=WorkState.RUNNING)):
        plan = engine([running, other], slots=1, pausable=pausable)
        assert (ids(plan.order), ids(plan.abort)) == ([3], [2])
    assert ids(engine([waiting, work(3)], slots=2, pausable=pausable).start) == [3]


def test_work_that_is_held_leaves_its_time_to_work_for_idle_time_and_is_woken_all_the_same() -> None:
    held = work(1, dry_at=ms(900), hold_until=ms(400), state=WorkState.PAUSED)
    plan = engine([held, work(2, idle_only=True)], slots=1)
    assert ids(plan.start) == [2] and plan.wake_at == ms(400)
    plan = engine([held, work(2, idle_only=True, state=WorkState.RUNNING)], slots=1, now_ms=500)
    assert (ids(plan.resume), ids(plan.abort)) == ([1], [2])
