"""Nothing is lost and nothing is made twice: audio made = sent + cut + buffered, and every job ends exactly once."""

from __future__ import annotations

from collections import Counter

import pytest

from loadgen.sim.faults import Fault
from loadgen.trace import SessionTrace
from tests.sim.simulated import POLICIES, Watched, caller, chosen, interrupter, profile

pytestmark = pytest.mark.sim
FAULTS = {
    "none": (),
    "stall": (Fault(kind="stall", stage="talk", at_s=5, for_s=2),),
    "crash": (
        Fault(kind="crash", stage="vocode", at_s=4, for_s=1),
        Fault(kind="crash", stage="think", at_s=9, for_s=1),
    ),
    "disconnect": (Fault(kind="disconnect", at_s=5, share=0.5), Fault(kind="disconnect", at_s=9, share=0.5)),
}
RUNS = [
    *((policy, "none") for policy in POLICIES),
    *((p, fault) for p in ("fcfs", "listener") for fault in list(FAULTS)[1:]),
]


def scene() -> list[SessionTrace]:
    """Interrupted answers, pauses, backchannels."""
    return [
        *(interrupter(f"i{n}", n * 0.3, after_s=1.1 * n + 0.2, answer_words=25) for n in range(3)),
        caller("c", 1.0, turns=2, answer_words=20, pauses=((0.6, 0.4),), backchannels=((1.0, 0.2),)),
    ]  # fmt: skip


def check(world: Watched) -> None:
    """Check every session's audio, that each reply's part of it is where its core believes it to be, and the jobs."""
    for name, account in world.accounts.items():
        assert account.made == account.left + account.cut + world.buffered(name), (world.now_s, name, account)
        session = world.everyone[name].session
        waiting = {speech.reply: speech.made - speech.sent for speech in session._egress._speeches}
        for reply in session.core.lane:
            assert reply.generated - session.core.lane.sent(reply) == waiting.get(reply.id, 0)
    ended = Counter(span.job for span in world.spans)
    assert max(ended.values(), default=1) == 1
    assert ended.keys() <= world.submitted.keys()


@pytest.mark.parametrize(("policy", "fault"), RUNS)
def test_audio_and_jobs_are_conserved_at_every_moment(policy: str, fault: str) -> None:
    world = Watched(profile(), policy, chosen(faults=FAULTS[fault]))
    buffered: list[int] = []

    def look() -> None:
        check(world)
        buffered.append(sum(map(world.buffered, world.accounts)))

    world.every(0.17, look)
    world.run(scene())
    world.settle()
    look()
    accounts = world.accounts.values()
    assert max(buffered) > 0 and buffered[-1] == 0
    assert (sum(account.cut for account in accounts) > 0) == (policy != "oracle")  # which makes nothing that is cut
    if fault != "crash":  # a reply that fails gives up what is in a step
        assert [account.vocoded for account in accounts] == [account.made for account in accounts]
    assert Counter(span.job for span in world.spans) == world.submitted  # each submitted once, each ended once
    assert world.runners.idle
    assert "invariant" not in "".join(world.totals)


def test_what_a_listener_heard_is_what_was_sent() -> None:
    world = Watched(profile())
    result = world.run(scene())
    heard = Counter[str]()
    for row in result.rows:
        heard[row.session] += round(row.heard_s * 48_000)
    assert heard == {name: account.left for name, account in world.accounts.items()}
