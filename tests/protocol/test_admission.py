"""Admission on a running server: who comes in at twice what it carries, what the others are told, and what it shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession, WSServerHandshakeError
from duplex_models.local import create as create_local
from duplex_models.sim import SimOptions, make

from benchmarks.admission import FULL, MODEL, TURNS, offer, settings
from duplex.actor.door import capacity
from duplex.actor.host import SessionHost
from duplex.config import AdmissionSettings, ServerSettings, Settings, StageSettings
from duplex.media.video import video_rate
from duplex.payloads import Role, StageError
from duplex.server.serve import listening
from duplex.telemetry import Observer

pytestmark = pytest.mark.protocol

CEILING_S = 60.0
CALLS = "/v1/realtime/calls"
SDP = {"Content-Type": "application/sdp"}


@asynccontextmanager
async def served(configured: Settings, options: SimOptions) -> AsyncIterator[tuple[str, SessionHost, Observer]]:
    observer = Observer()
    host = SessionHost(configured, make(options), observer.record)
    async with listening(host, configured.server, observer) as url, asyncio.timeout(CEILING_S):
        await host.start(lambda line: None)
        yield url, host, observer


def small(**admission: Any) -> Settings:
    return Settings(
        server=ServerSettings(port=0, close_timeout_s=1.0), admission=AdmissionSettings(**admission), log_level="error"
    )


def refusals(observer: Observer, reason: str) -> float:
    return observer.value("duplex_admission_total", decision="refused", reason=reason)


async def test_at_twice_saturation_the_admitted_keep_the_slo_and_the_others_are_told_at_once() -> None:
    async with served(settings(), MODEL) as (url, host, _):
        outcome = await offer(url, 2 * FULL / (TURNS * 7), seconds=6, seed=2)
        assert outcome.admitted >= 5
        assert outcome.live_max <= FULL
        assert len(outcome.refusals_s) >= 5
        assert max(outcome.refusals_s) < 0.5
        assert min(outcome.retry_after_s) >= 1
        # Generous: another process may take the cores for a moment. The figures are in benchmarks/results/admission.json.
        assert sum(turn.ttfas_s < 2 for turn in outcome.turns) >= 0.8 * len(outcome.turns)
        assert {limit.name for limit in host.admission_limits()} >= {"vad", "vocode", "think", "cpu", "loop"}


async def test_a_burst_of_fifty_is_admitted_up_to_what_is_believed() -> None:
    async with (
        served(small(sessions_prior=6), SimOptions(vad="level")) as (url, host, observer),
        ClientSession(url) as http,
    ):

        async def ask() -> int:
            try:
                socket = await http.ws_connect("/v1/realtime")
            except WSServerHandshakeError as refused:
                return refused.status
            await socket.receive_json()
            return 101

        statuses = await asyncio.gather(*(ask() for _ in range(50)))
        assert sorted(statuses) == [101] * 6 + [503] * 44
        assert host.sessions == 6
        assert observer.value("duplex_admission_total", decision="admitted", reason="ok") == 6
        shown = await (await http.get("/readyz")).json()
        assert shown == {"status": "ready"}  # full is not broken


async def test_a_refused_call_is_answered_before_its_body_is_read() -> None:
    async with (
        served(small(sessions_prior=1), SimOptions(vad="level")) as (url, _, observer),
        ClientSession(url) as http,
    ):
        async with http.ws_connect("/v1/realtime") as taken:
            await taken.receive_json()
            never = asyncio.Event()

            async def body() -> AsyncIterator[bytes]:
                yield b"v=0\r\n"
                await never.wait()

            response = await http.post(CALLS, data=body(), headers=SDP)
            assert response.status == 503
            error = (await response.json())["error"]
            assert (error["type"], error["code"]) == ("server_error", "server_busy")
            assert int(response.headers["Retry-After"]) >= 1
            response.close()
            assert refusals(observer, "stage") == 1


async def test_a_client_that_was_refused_is_taken_when_another_has_left() -> None:
    async with served(small(sessions_prior=1), SimOptions(vad="level")) as (url, host, _), ClientSession(url) as http:
        async with http.ws_connect("/v1/realtime") as first:
            await first.receive_json()
            with pytest.raises(WSServerHandshakeError):
                await http.ws_connect("/v1/realtime")
        while host.sessions:  # noqa: ASYNC110 - under the ceiling of `served`
            await asyncio.sleep(0.005)
        async with http.ws_connect("/v1/realtime") as second:
            assert (await second.receive_json())["type"] == "session.created"


async def test_c47_a_client_that_comes_and_goes_ten_times_is_served_each_time() -> None:
    async with (
        served(small(sessions_prior=2), SimOptions(vad="level")) as (url, _, observer),
        ClientSession(url) as http,
    ):
        for _ in range(10):
            async with http.ws_connect("/v1/realtime") as ws:
                assert (await ws.receive_json())["type"] == "session.created"
        assert observer.value("duplex_admission_total", decision="admitted", reason="ok") == 10


async def test_c66_a_flood_of_refused_offers_leaves_the_one_who_is_in_alone() -> None:
    async with (
        served(small(sessions_prior=1), SimOptions(vad="level")) as (url, host, observer),
        ClientSession(url) as http,
    ):
        async with http.ws_connect("/v1/realtime") as innocent:
            await innocent.receive_json()

            async def knock() -> int:
                async with http.post(CALLS, data=b"v=0\r\n" * 1000, headers=SDP) as response:
                    return response.status

            loop = asyncio.get_running_loop()
            flood = asyncio.gather(*(knock() for _ in range(300)))
            began = loop.time()
            await innocent.send_str('{"type":"session.update","session":{"instructions":"Be brief."}}')
            while (await innocent.receive_json())["type"] != "session.updated":
                pass
            assert loop.time() - began < 2
            assert set(await flood) == {503}
            assert refusals(observer, "stage") == 300
            assert host.sessions == 1


async def test_the_operators_number_is_named_as_the_reason() -> None:
    configured = Settings(server=ServerSettings(port=0, sessions_max=1, close_timeout_s=1.0), log_level="error")
    async with served(configured, SimOptions(vad="level")) as (url, host, observer), ClientSession(url) as http:
        async with http.ws_connect("/v1/realtime") as taken:
            await taken.receive_json()
            assert (await http.post(CALLS, data=b"v=0", headers=SDP)).status == 503
        assert refusals(observer, "sessions_max") == 1
        assert host.sessions_max == 1


async def test_turns_that_miss_the_slo_close_the_door_and_an_idle_server_opens_it() -> None:
    configured = small(sessions_prior=50, slo_ttfas_s=0.05, sample_s=0.05)
    options = SimOptions(vad="level", first_token_s=0.2, script=("One two three.",))
    async with served(configured, options) as (url, host, observer), ClientSession(url) as http:
        outcome = await offer(url, 20.0, seconds=0.5, seed=4)
        assert len(outcome.turns) >= 5
        while host.sessions:  # noqa: ASYNC110 - under the ceiling of `served`
            await asyncio.sleep(0.005)
        async with http.ws_connect("/v1/realtime") as again:
            assert (await again.receive_json())["type"] == "session.created"
        before = refusals(observer, "slo")
        crowd = await offer(url, 20.0, seconds=4.0, seed=5)
        assert refusals(observer, "slo") > before
        assert crowd.admitted >= 1


async def test_a_stage_that_hangs_fails_its_reply_and_the_server_says_that_it_is_not_ready_until_it_goes_on() -> None:
    configured = Settings(
        server=ServerSettings(port=0, close_timeout_s=1.0), stages=StageSettings(step_timeout_s=0.2), log_level="error"
    )
    options = SimOptions(vad="level", vocode_s=1.5, script=("One.",))
    async with served(configured, options) as (url, host, observer), ClientSession(url) as http:
        async with http.ws_connect("/v1/realtime") as ws:
            await ws.send_json({"type": "response.create"})
            kinds = []
            while not kinds or kinds[-1] != "response.done":
                kinds.append((event := await ws.receive_json())["type"])
            assert (event["response"]["status"], "error" in kinds) == ("failed", True)
            assert observer.value("duplex_replies_total", status="failed") == 1
            async with http.get("/readyz") as response:
                assert response.status == 503
                assert "stage vocode made no progress" in await response.text()
            assert (await http.post(CALLS, data=b"v=0", headers=SDP)).status == 503
            while not host.ready:  # noqa: ASYNC110 - under the ceiling of `served`
                await asyncio.sleep(0.01)
            await ws.send_json({"type": "session.update", "session": {"instructions": "Still there?"}})
            while (await ws.receive_json())["type"] != "session.updated":
                pass


async def test_replies_that_fail_close_the_door() -> None:
    configured = small(sessions_prior=50, sample_s=0.05)
    script = ("One.",)
    async with served(configured, SimOptions(vad="level", script=script)) as (url, host, observer):
        think = next(stage for stage in host.pack.stages if stage.spec.role is Role.THINK)
        think.submit = lambda job, emit: emit(StageError(reason="broken"))  # type: ignore[union-attr, method-assign]
        async with ClientSession(url) as http, http.ws_connect("/v1/realtime"), http.ws_connect("/v1/realtime") as ws:
            status = 0
            while status != 503:  # looked at every `sample_s`
                await ws.send_json({"type": "response.create"})
                while (await ws.receive_json())["type"] != "response.done":
                    pass
                try:
                    await (await http.ws_connect("/v1/realtime")).close()
                except WSServerHandshakeError as refused:
                    status = refused.status
        assert refusals(observer, "slo") == 1


async def test_video_is_shed_while_the_load_is_high() -> None:
    configured = small(sessions_prior=2, sample_s=0.02, video_load=0.5)
    async with served(configured, SimOptions(vad="level")) as (url, _, _), ClientSession(url) as http:
        async with http.ws_connect("/v1/realtime") as one, http.ws_connect("/v1/realtime") as two:
            await one.receive_json()
            await two.receive_json()
            while video_rate().share > 0.125:  # noqa: ASYNC110 - under the ceiling of `served`
                await asyncio.sleep(0.01)
        while video_rate().share < 1:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert video_rate().share == 1.0


# What a pack's own number means. ----------------------------------------------------------------------------------------


def test_a_pack_whose_engine_keeps_contexts_in_slots_has_a_bound() -> None:
    local = capacity(create_local({"sessions": 3}, 2), Settings())
    assert (local.sessions_prior, local.sessions_max) == (3, 3)
    assert local.engines == {"thinker"}
    operator = capacity(create_local({"sessions": 3}, 2), Settings(server=ServerSettings(sessions_max=5)))
    assert operator.sessions_max == 5


def test_the_default_model_begins_with_a_session_for_each_core() -> None:
    """What was measured to keep the SLO; what is measured then may admit as many more as there are slots."""
    two, eight = (capacity(create_local({}, threads), Settings()) for threads in (2, 8))
    assert (two.sessions_prior, two.sessions_max) == (2, 4)
    assert (eight.sessions_prior, eight.sessions_max) == (4, 4)


def test_a_pack_without_such_an_engine_has_a_first_guess() -> None:
    sim = capacity(make(SimOptions(vad="level")), Settings(threads=1))
    assert (sim.sessions_prior, sim.sessions_max) == (200, None)
    assert 1.0 <= sim.parallelism["cpu"] <= 2.0
    assert capacity(make(SimOptions(vad="level")), small(sessions_prior=7)).sessions_prior == 7
