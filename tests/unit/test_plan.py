import pytest
from duplex_models.sim import SimOptions, make
from duplex_models.sim.stages import SimTalk, SimThink, loop_after
from hypothesis import given
from hypothesis import strategies as st

from duplex.payloads import Address, Clause, Job, JobId, Pace, Utterance, VoiceWindow
from duplex.session.clauses import ClauseSplitter
from duplex.stages.contract import ModelPack, NodeSpec, PackError, Role
from duplex.stages.graph import build_graph
from duplex.stages.plan import StageQueue, fcfs_ranker, listener_ranker
from duplex.units import MonoNs, Samples, Span, ns_from_ms

pytestmark = pytest.mark.unit
SPEC = NodeSpec(name="talk", role=Role.TALK, takes=Clause, gives=Clause, unit="clause", batch_max=3)
FIRST = ns_from_ms(1000)


def job(number: int, session: str = "s", lane: int = 0, epoch: int = 0, **pace: int) -> Job:
    return Job(
        id=JobId(number), stage=Role.TALK, address=Address(session=session, lane=lane, epoch=epoch, reply="r"),
        payload=Clause(index=0, text="hello", voice="v"), pace=Pace(since=MonoNs(pace.get("since", 0)), **{
            key: MonoNs(value) for key, value in pace.items() if key != "since"}),
    )  # fmt: skip


def queue(batch_max: int = 3) -> StageQueue:
    spec = NodeSpec(name="talk", role=Role.TALK, takes=Clause, gives=Clause, unit="clause", batch_max=batch_max)
    return StageQueue(spec, listener_ranker(FIRST), media_ms_max=1000)


def test_a_held_job_does_not_ride_along_and_tells_when_to_wake() -> None:
    q = queue()
    q.put(job(1, dry_at=ns_from_ms(900), hold_until=ns_from_ms(400)))
    q.put(job(2))
    plan = q.plan(MonoNs(0), step_s=0.01)
    assert [j.id for j in plan.batch] == [2]
    plan = q.plan(MonoNs(0), step_s=0.01)
    assert (plan.batch, plan.wake_at) == ((), ns_from_ms(400))
    assert [j.id for j in q.plan(MonoNs(ns_from_ms(400)), step_s=0.01).batch] == [1]


def test_a_cut_drops_older_epochs_of_its_lane_only() -> None:
    q = queue()
    for number, (lane, epoch) in enumerate([(0, 0), (0, 1), (1, 0)]):
        q.put(job(number, lane=lane, epoch=epoch))
    q.put(job(9, session="other"))
    assert [j.id for j in q.cut("s", lane=0, epoch=1)] == [0]
    assert q.stats().jobs == 3


def test_a_full_queue_refuses_and_keeps_what_it_has() -> None:
    spec = NodeSpec(name="vad", role=Role.VAD, takes=VoiceWindow, gives=VoiceWindow, unit="w")
    q = StageQueue(spec, listener_ranker(FIRST), media_ms_max=64)

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

    assert q.put(window(1)) is None
    assert q.put(window(2)) is None
    refused = q.put(window(3))
    assert refused is not None and refused.kind == "refused"
    assert (q.stats().jobs, q.stats().media_ms) == (2, 64)


def test_a_queue_takes_only_what_its_stage_takes() -> None:
    wrong = Job(
        id=JobId(1), stage=Role.TALK, address=Address(session="s", lane=0, epoch=0),
        payload=Utterance(span=Span(Samples(0), Samples(1)), pcm=None), pace=Pace(since=MonoNs(0)),  # type: ignore[arg-type]
    )  # fmt: skip
    refused = queue().put(wrong)
    assert refused is not None and "takes Clause" in refused.reason


@given(st.lists(st.tuples(st.integers(0, 2000), st.one_of(st.none(), st.integers(0, 2000))), min_size=1, max_size=40))
def test_every_job_comes_out_once_and_urgent_ones_first(paces: list[tuple[int, int | None]]) -> None:
    q = queue(batch_max=1)
    for number, (since, dry) in enumerate(paces):
        pace = {"since": ns_from_ms(since)} | ({} if dry is None else {"dry_at": ns_from_ms(dry)})
        q.put(job(number, **pace))
    ranker = listener_ranker(FIRST)
    now = MonoNs(ns_from_ms(2000))
    out = []
    while (plan := q.plan(now, step_s=0.01)).batch:
        out.append(plan.batch[0])
    assert sorted(j.id for j in out) == list(range(len(paces)))
    ranks = [ranker(j, now, ns_from_ms(10)) for j in out]
    assert ranks == sorted(ranks)


def test_fcfs_takes_the_order_of_arrival() -> None:
    q = StageQueue(SPEC, fcfs_ranker(), media_ms_max=1000)
    q.put(job(2))
    q.put(job(1, dry_at=ns_from_ms(9000), hold_until=ns_from_ms(8000)))
    assert [j.id for j in q.plan(MonoNs(0), step_s=0.01).batch] == [1, 2]


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
