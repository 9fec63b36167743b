"""Every stage's process really killed, stopped and starved of memory, while two sessions are in the middle of something."""

from __future__ import annotations

import base64
import io
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from duplex_models.sim import SimOptions, make
from PIL import Image

from duplex.payloads import Role
from tests.gated import GREEDY, Gated
from tests.killing import HEARS, WORDS, Client, Stand, bound_memory, stand, works

pytestmark = [pytest.mark.protocol, pytest.mark.asyncio(loop_scope="module")]
ROLES = (*HEARS, Role.THINK, Role.TALK, Role.VOCODE, Role.READ)
SENSES = (Role.VAD, Role.END_OF_TURN)
"""What they held costs the turn nothing: windows are asked about again, and a turn ends by silence."""
HOW = [(signal.SIGKILL, "exit"), (signal.SIGSTOP, "hang")]
MIDDLE = 0.25
"""Share of a turn after which the second session pauses, still speaking."""
WHOLE = "0.8 seconds of speech"
"""What the test double hears of a turn of which nothing is lost."""
MEMORY_LEFT = 64 << 20
"""Bytes that a process may still take."""


@asynccontextmanager
async def serve(folder: Path, **stages: Any) -> AsyncIterator[Stand]:
    """Serve the test double, each stage behind a gate in `folder`."""
    pack = make(SimOptions(vad="level", script=("Yes.",), word_ms=100, reads=("blorptic",)))
    makers = {role: partial(Gated, maker, folder / role) for role, maker in pack.makers.items()}
    pack = replace(pack, makers=makers, stages=tuple(make() for make in makers.values()))
    loud = 8000 * np.sin(2 * np.pi * 300 * np.arange(24 * 700) / 24_000)
    turn = np.concatenate([loud, np.zeros(24 * 900)]).astype(np.int16)
    file = io.BytesIO()
    Image.new("RGB", (40, 30), "white").save(file, "PNG")
    image = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    async with stand(pack, turn, image, **stages) as serving:
        yield serving


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the gates of `server` are."""
    return tmp_path_factory.mktemp("gates")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(folder: Path) -> AsyncIterator[Stand]:
    """Each stage in a process of its own."""
    async with serve(folder, processes=ROLES, heartbeat_s=0.1, heartbeats_missed_max=7) as serving:
        yield serving
        last = [serving.stage(role).pid for role in ROLES]
    for child in last:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)


@contextmanager
def shut(folder: Path, role: Role, how: str = "") -> Iterator[None]:
    """Hold a stage's work, and its next start, for as long as the block goes."""
    gate = folder / role
    gate.write_text(how)
    try:
        yield
    finally:
        gate.unlink()


async def begin(client: Client) -> None:
    """Be in the middle of a turn."""
    await client.say(0.0, MIDDLE)
    await client.until("input_audio_buffer.speech_started")


async def fails(client: Client, stage: str, role: Role, words: str) -> None:
    """See how the reply or the transcript that a stage held ends: with an error that names the stage, and why."""
    if role is Role.TRANSCRIBE:
        error = (await client.until("conversation.item.input_audio_transcription.failed"))["error"]
    else:
        error = (await client.until("error"))["error"]
        assert error["code"] == ("image_not_read" if role is Role.READ else "stage_failed")
    assert stage in error["message"]
    assert words in error["message"]
    if role in (Role.THINK, Role.TALK, Role.VOCODE):
        assert await client.status() == "failed"


async def ends_well(client: Client) -> None:
    """See that a turn that went on meanwhile is answered, and that nothing of it was lost."""
    assert await client.said() == WHOLE
    assert client.kinds().count("input_audio_buffer.committed") == 1
    assert not client.of("error")


@pytest.mark.parametrize(("number", "reason"), HOW)
@pytest.mark.parametrize("role", ROLES)
async def test_a_stage_killed_or_stopped_at_work_fails_what_it_held_and_comes_back(
    server: Stand, folder: Path, role: Role, number: signal.Signals, reason: str
) -> None:
    before, stage, child = server.restarts(), server.name(role), server.stage(role).pid
    async with server.talk() as holder, server.talk() as other:
        await begin(other)
        await server.until_idle()
        with shut(folder, role):
            await holder.use(role)
            await server.until_held(role)
            os.kill(child, number)
            await server.sees_down(role, reason)
            if role not in SENSES:
                await fails(holder, stage, role, WORDS[reason])
            await other.say(MIDDLE)
        await server.sees_back(child)
        if role in SENSES:
            await ends_well(holder)
        await ends_well(other)
        await works(holder, role)
    assert server.restarts() == before + Counter([(stage, reason)])


@pytest.mark.parametrize(("number", "reason"), HOW)
async def test_what_waits_behind_the_work_of_a_killed_or_stopped_stage_is_served_by_the_next(
    server: Stand, folder: Path, number: signal.Signals, reason: str
) -> None:
    role = Role.TALK
    before, stage, child = server.restarts(), server.name(role), server.stage(role).pid
    async with server.talk() as holder, server.talk() as second, server.talk() as third:
        with shut(folder, role):
            await holder.use(role)
            await server.until_held(role)
            for waiting in (second, third):
                await waiting.use(role)
            await server.until(lambda: server.waiting(role) == 2, "two wait")
            os.kill(child, number)
            await server.sees_down(role, reason)
            await fails(holder, stage, role, WORDS[reason])
        for waiting in (second, third):
            assert await waiting.status() == "completed"
            assert not waiting.of("error")
        await server.sees_back(child)
    assert server.restarts() == before + Counter([(stage, reason)])


@pytest.mark.parametrize(("number", "reason"), HOW)
async def test_a_stage_killed_or_stopped_while_nobody_needs_it_costs_nobody_anything(
    server: Stand, folder: Path, number: signal.Signals, reason: str
) -> None:
    role = Role.TALK
    before, stage, child = server.restarts(), server.name(role), server.stage(role).pid
    async with server.talk() as first, server.talk() as second:
        await works(first, role)
        await server.until_idle()
        with shut(folder, role):
            os.kill(child, number)
            await server.sees_down(role, reason)
            await second.use(role)
        await server.sees_back(child)
        assert await second.status() == "completed"
        await works(first, role)
        assert not first.of("error")
        assert not second.of("error")
    assert server.restarts() == before + Counter([(stage, reason)])


async def test_a_stage_killed_while_it_starts_again_is_started_once_more(server: Stand, folder: Path) -> None:
    role = Role.VOCODE
    before, stage, child = server.restarts(), server.name(role), server.stage(role).pid
    async with server.talk() as client:
        with shut(folder, role):
            os.kill(child, signal.SIGKILL)
            await server.until(lambda: server.starting(role), "the next one loads")
            next_child = server.starting(role)
            assert next_child is not None
            os.kill(next_child, signal.SIGKILL)
            await server.sees_down(role, "start")
            await client.use(role)
        assert await client.status() == "completed"
        assert not client.of("error")
    await server.sees_back(child)
    assert server.restarts() == before + Counter([(stage, "exit"), (stage, "start")])


@pytest.mark.parametrize("role", [Role.TRANSCRIBE, Role.THINK, Role.TALK])
async def test_a_stage_that_runs_out_of_memory_fails_what_it_held_and_comes_back(
    server: Stand, folder: Path, role: Role
) -> None:
    """Its process takes more and more, until the system gives it no more."""
    before, stage, child = server.restarts(), server.name(role), server.stage(role).pid
    bound_memory(child, MEMORY_LEFT)
    async with server.talk() as holder, server.talk() as other:
        await begin(other)
        await server.until_idle()
        with shut(folder, role, GREEDY):
            await holder.use(role)
            await server.sees_down(role, "memory")
            await fails(holder, stage, role, "MemoryError")
            await other.say(MIDDLE)
        await server.sees_back(child)
        await ends_well(other)
        await works(holder, role)
    assert server.restarts() == before + Counter([(stage, "memory")])


async def test_a_stage_that_hangs_in_a_thread_of_the_server_is_left_behind_and_replaced(tmp_path: Path) -> None:
    """A thread cannot be killed: what stands for it is a step that comes back too late, when nobody wants its result."""
    role = Role.TALK
    async with (
        serve(tmp_path, processes=(), step_timeout_s=2.0) as server,
        server.talk() as holder,
        server.talk() as other,
    ):
        await begin(other)
        await server.until_idle()
        hung = server.stage(role)
        with shut(tmp_path, role):
            await holder.use(role)
            await server.until_held(role)
            await server.sees_down(role, "hang")
            await fails(holder, role, role, WORDS["hang"])
            await other.say(MIDDLE)
        await server.sees_back()
        assert server.stage(role) is not hung
        await ends_well(other)
        await works(holder, role)
        assert server.restarts() == Counter([(role, "hang")])
