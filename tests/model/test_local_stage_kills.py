"""The default model's stages with real weights, each in a process of its own, really killed and really stopped in a conversation.

The thinker is the test double here, for it has a test of its own: test_thinker_process.py. How waiting work, starts and memory
fare is the same for every pack: tests/protocol/test_stage_kills.py.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
import pytest
import pytest_asyncio
from duplex_models.local import create
from duplex_models.sim import SimOptions, make

from duplex.payloads import Clause, Latents, Role
from duplex.stages.contract import ModelPack
from loadgen.jobs import job
from tests.killing import HEARS, WORDS, Client, Stand, bound_memory, stand, works
from tests.model.test_camera_reader import card
from tests.speech import fact_audio, facts, normal

pytestmark = [pytest.mark.model, pytest.mark.alone, pytest.mark.asyncio(loop_scope="module")]
ROLES = (*HEARS, Role.TALK, Role.VOCODE, Role.READ)
RATE = 24_000
FACT = 0
MEMORY_LEFT = 16 << 20
"""Bytes that a process may still take: enough for everything but long sound."""
MIDDLE = 0.4
"""Share of the spoken turn after which the second session pauses, still speaking."""


def local() -> ModelPack:
    """Return the pack with the test double's thinker."""
    pack = create({}, 2)
    maker = make(SimOptions(script=("Paris it is.",))).makers[Role.THINK]
    stages = tuple(maker() if stage.spec.role is Role.THINK else stage for stage in pack.stages)
    return replace(pack, stages=stages, makers={**pack.makers, Role.THINK: maker})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[Stand]:
    turn = np.concatenate([fact_audio(FACT, "af_sarah", RATE), np.zeros(RATE * 3 // 2, np.int16)])
    shown = cv2.imencode(".png", card("blorptic 7431"))[1].tobytes()
    image = f"data:image/png;base64,{base64.b64encode(shown).decode()}"
    async with stand(local(), turn, image, processes=ROLES, heartbeat_s=0.15, heartbeats_missed_max=9) as serving:
        yield serving


def strike(server: Stand, role: Role) -> int:
    """Have a stage's process killed in the next work that it is given; return its id."""
    stage: Any = server.stage(role)
    step = stage.step

    def struck(jobs: Any) -> Any:
        os.kill(stage.pid, signal.SIGKILL)
        return step(jobs)

    stage.step = struck
    pid: int = stage.pid
    return pid


async def ends(client: Client, server: Stand, role: Role) -> None:
    """See how the turn ends whose work the stage held: told with an error, or not touched by it where that can be."""
    if role in (Role.VAD, Role.END_OF_TURN):
        assert normal(await client.said()) == normal(facts()[FACT].ask)
        assert not client.of("error")
        return
    if role is Role.TRANSCRIBE:
        error = (await client.until("conversation.item.input_audio_transcription.failed"))["error"]
    else:
        error = (await client.until("error"))["error"]
    assert error["message"].endswith(f"{server.name(role)} {WORDS['exit']}")
    if role in (Role.TALK, Role.VOCODE):
        assert await client.status() == "failed"


@pytest.mark.parametrize("role", ROLES)
async def test_a_stage_killed_at_work_fails_what_it_held_and_comes_back(server: Stand, role: Role) -> None:
    before = server.restarts()
    async with server.talk() as holder, server.talk() as other:
        await other.say(0.0, MIDDLE)
        await other.until("input_audio_buffer.speech_started")
        await server.until_idle()
        child = strike(server, role)
        await holder.use(role)
        await server.sees_down(role, "exit")
        await other.say(MIDDLE)
        await ends(holder, server, role)
        await server.sees_back(child)
        await works(holder, role)
        assert normal(await other.said()) == normal(facts()[FACT].ask)
        assert not other.of("error")
    assert server.restarts() == before + Counter([(server.name(role), "exit")])


async def test_stages_that_are_stopped_all_at_once_are_all_replaced_and_two_spoken_turns_go_on(server: Stand) -> None:
    before = server.restarts()
    async with server.talk() as first, server.talk() as second:
        await second.say(0.0, MIDDLE)
        await second.until("input_audio_buffer.speech_started")
        await server.until_idle()
        children = [server.stage(role).pid for role in ROLES]
        for child in children:
            os.kill(child, signal.SIGSTOP)
        await first.say()
        await server.until(lambda: not server.host.ready, "a stage is down")
        await second.say(MIDDLE)
        every = before + Counter((server.name(role), "hang") for role in ROLES)
        await server.until(lambda: server.restarts() == every, "each is started once")
        for child in children:
            await server.sees_back(child)
        for client in (first, second):
            assert normal(await client.said()) == normal(facts()[FACT].ask)
            assert not client.of("error")
        await works(first, Role.READ)
    assert server.restarts() == every


async def test_a_stage_that_gets_no_memory_for_its_sound_says_so(server: Stand) -> None:
    """What onnxruntime raises then has no class of its own; without it the stage would not be replaced at once."""
    stage: Any = server.host.pack.makers[Role.TALK]()
    await asyncio.to_thread(stage.load, lambda line: None)

    def say(times: int) -> Any:
        clause = Clause(index=0, text="One two three four five six seven. " * times, voice="joe")
        return stage.step([job(clause)])

    (latents,) = await asyncio.to_thread(say, 1)
    assert isinstance(latents, Latents)
    bound_memory(stage.pid, MEMORY_LEFT)
    with pytest.raises(MemoryError):
        await asyncio.to_thread(say, 60)
    stage.close()
