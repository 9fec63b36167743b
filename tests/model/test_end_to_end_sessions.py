"""Many calls with the default model: one after the other, as many as fit, one too many, and one that vanishes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import openai
import pytest

from tests.model.caller import RATE, Caller, call, text_of
from tests.model.local_server import VANISH_TIMEOUT_S, LocalServer, within
from tests.speech import SPEECH, fact_audio, facts

pytestmark = [pytest.mark.model, pytest.mark.alone]

ADMITTED = 4
"""The default bound of the pack."""
VANISH_S = VANISH_TIMEOUT_S + 2.0
SPARE_S = 2.0
"""For the polls of a busy machine."""
IDLE_CPU = 0.25
"""Share of a core that a server without sessions stays under."""
LONG_QUESTION = SPEECH / "s17.flac"


async def turn(caller: Caller, fact: int) -> str:
    """Ask a question and return the answer once it is complete."""
    caller.microphone.say(fact_audio(fact, "af_sarah", RATE))
    done = await caller.until("response.done")
    assert done["response"]["status"] == "completed"
    return text_of(done["response"]["output"][0])


async def no_sessions(server: LocalServer, ceiling_s: float = 5.0) -> None:
    await within(ceiling_s, lambda: server.measure("duplex_sessions") == 0, "all sessions end")


async def test_a_second_call_after_the_first_begins_anew(server: LocalServer) -> None:
    calls = []
    for fact in (0, 1):
        async with call(server.url) as caller:
            assert facts()[fact].is_answered_by(await turn(caller, fact))
            calls.append(caller)
        await no_sessions(server)
    first, second = calls
    assert first.call_id != second.call_id
    assert [caller.events[0]["type"] for caller in calls] == ["session.created"] * 2
    assert second.events[0]["event_id"].startswith("event_000000000001_")
    (added,) = [event for event in second.of("conversation.item.added") if event["item"]["role"] == "user"]
    assert added["previous_item_id"] is None


async def test_four_calls_finish_a_turn_and_a_fifth_is_told_to_come_back(server: LocalServer) -> None:
    await no_sessions(server)
    all_in, refused = asyncio.Barrier(ADMITTED + 1), asyncio.Event()

    async def one(fact: int) -> str:
        async with call(server.url, {"max_output_tokens": 60}) as caller:
            await all_in.wait()
            answer = await turn(caller, fact)
            await refused.wait()
            return answer

    async with asyncio.timeout(100), asyncio.TaskGroup() as tasks:
        answers = [tasks.create_task(one(fact)) for fact in range(ADMITTED)]
        await all_in.wait()
        fifth = Caller(server.url)
        with pytest.raises(openai.InternalServerError) as full:
            await fifth.dial(None)
        await fifth.drop()
        refused.set()
    assert full.value.status_code == 503
    assert full.value.code == "server_busy"
    assert int(full.value.response.headers["Retry-After"]) >= 1
    assert sum(facts()[fact].is_answered_by(task.result()) for fact, task in enumerate(answers)) >= 3
    await no_sessions(server)
    async with call(server.url) as sixth:
        assert sixth.of("session.created")


async def test_a_client_killed_in_the_middle_of_an_answer_leaves_nothing(server: LocalServer, tmp_path: Path) -> None:
    async with call(server.url) as caller:
        await turn(caller, 2)
    await no_sessions(server)
    before = server.sockets, server.threads
    answers = server.measure("duplex_ttfas_seconds_count")
    arguments = ["-m", "duplex.cli", "talk", str(LONG_QUESTION), "--url", server.url]
    with (tmp_path / "talk.log").open("wb") as log:
        client = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=log, stderr=log)
    try:
        await within(60, lambda: server.measure("duplex_ttfas_seconds_count") > answers, "the answer begins")
        assert server.sockets > before[0]
    finally:
        client.kill()
        await client.wait()
    loop = asyncio.get_running_loop()
    killed = loop.time()
    await no_sessions(server, VANISH_S + SPARE_S)
    left_s = VANISH_S + SPARE_S - (loop.time() - killed)
    await within(left_s, lambda: server.sockets <= before[0] and server.threads <= before[1], "all is given back")
    await _idle(server)
    assert server.logged("session_ended")[-1]["reason"] == "vanished"


async def _idle(server: LocalServer) -> None:
    """Wait for a second in which the server computes next to nothing, and no stage anything."""
    async with asyncio.timeout(10):
        while True:
            steps, cpu_s = server.measure("duplex_stage_compute_seconds_count"), server.cpu_s
            await asyncio.sleep(1.0)  # the second that is measured
            still = server.measure("duplex_stage_compute_seconds_count") == steps
            if still and server.cpu_s - cpu_s < IDLE_CPU:
                return
