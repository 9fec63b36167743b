"""The host: all sessions of the process, the model they talk to, and the clock that their audio leaves by."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import structlog

from duplex.actor.actor import ActorContext, SessionActor
from duplex.actor.door import Door
from duplex.actor.executor import ThreadExecutor
from duplex.actor.watch import LiveSession, Watch
from duplex.config import Settings
from duplex.media import processing
from duplex.media.contract import Transport
from duplex.media.peer import WebRtcPeer
from duplex.media.ticker import Ticker
from duplex.media.video import video_rate
from duplex.media.warm import warm_media
from duplex.pacing.admission import Limit
from duplex.pacing.policies import make_policy
from duplex.payloads import JobId
from duplex.protocol import TransportName, WireProfile, initial
from duplex.session.config import SessionConfig
from duplex.stages.contract import ModelPack, PackError, Progress
from duplex.stages.graph import build_graph
from duplex.stages.run import StageRunners
from duplex.stages.runner import StageLoad
from duplex.units import MonoNs

_log = structlog.get_logger("duplex.host")
_Measure = Callable[[str, float, dict[str, str]], None]
_ENDED_KEPT = 1000
"""Ended calls that are remembered, for clients that hang up late."""


class _Pump:
    """Sends a WebSocket session's audio from the shared ticker."""

    def __init__(self, actor: SessionActor) -> None:
        self._actor = actor

    def tick(self, number: int, now: MonoNs) -> None:
        """Send what may be sent."""
        self._actor.pump()

    def tick_failed(self) -> None:
        """The pump broke: the session ends."""
        self._actor.closed("error")


def _processing(settings: Settings) -> processing.Make | None:
    try:
        return processing.load() if settings.media.processing == "apm" else None
    except processing.ProcessingUnavailable as error:
        raise PackError(f"media.processing: {error}") from error


class SessionHost:
    """Opens and ends sessions. Made on the loop's thread; nothing is loaded before `start`.

    Args:
        settings: the whole configuration.
        pack: what sessions talk to.
        observe: takes measures.
        watch: looks at sessions and stages.
    Raises:
        PackError: the pack's graph is wrong, or audio processing is wanted and not installed.
    """

    def __init__(self, settings: Settings, pack: ModelPack, observe: _Measure, watch: Watch | None = None) -> None:
        self.pack = pack
        self._settings = settings
        self._observe = observe
        self._media = settings.media
        if pack.tick_ms is not None:  # a model in lock-step does not wait for a late client: its time goes on
            self._media = settings.media.model_copy(update={"late_ms": 0})
        self._executor = ThreadExecutor(lambda seconds: observe("duplex_transfer_seconds", seconds, {}))
        self._ticker = Ticker(
            phases=settings.media.tick_phases,
            late_drop_ms=settings.media.late_drop_ms,
            on_lateness=lambda seconds: observe("duplex_send_lateness_seconds", seconds, {}),
        )
        self._runners = StageRunners(
            build_graph(pack), self._executor, make_policy(settings.scheduling, settings.pacing), observe, settings.stages,
            settings.scheduling.tenant_weights, (lambda span: None) if watch is None else watch.span,
        )  # fmt: skip
        profile = WireProfile(
            model=pack.name,
            voices=pack.voices,
            lead_ms=settings.pacing.lead_ms_websocket,
            on_onset=settings.barge_in.on_onset,
            voice_threshold=settings.turn.voice_threshold,
            prefix_padding_ms=settings.turn.prefix_padding_ms,
            text_chars_max=settings.conversation.text_chars_max,
            processes_audio=settings.media.processing == "apm",
        )
        self._context = ActorContext(
            settings=settings, profile=profile, runners=self._runners, executor=self._executor, observe=observe,
            close=self._close_transport, tick_ms=pack.tick_ms, watch=watch, processing=_processing(settings),
        )  # fmt: skip
        self._door = Door(
            pack,
            settings,
            self._executor,
            observe,
            loads=self._runners.loads,
            live=lambda: self.sessions,
            video=video_rate(),
        )
        self._closing: set[asyncio.Future[None]] = set()
        self._jobs = itertools.count(1)
        self._actors: dict[str, SessionActor] = {}
        self._keys = itertools.count(1)
        self._began: dict[str, tuple[int, MonoNs]] = {}
        """By session: the number that names it to those who watch, and when it began."""
        self._ended: deque[str] = deque(maxlen=_ENDED_KEPT)
        """Ids of the sessions that ended last."""
        self._pumps: dict[str, _Pump] = {}
        self._peers: dict[str, WebRtcPeer] = {}
        self._reasons = ["loading the model"]
        self._empty = asyncio.Event()
        self._empty.set()

    # State. ---------------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether a session opened at this moment would be served."""
        return not self.not_ready_reasons

    @property
    def not_ready_reasons(self) -> list[str]:
        """Why not; empty when ready."""
        return [*self._reasons, *(f"stage {name} makes no progress" for name in self._runners.hung())]

    @property
    def sessions(self) -> int:
        """Live sessions, connecting ones included."""
        return len(self._actors)

    @property
    def sessions_max(self) -> int:
        """Sessions that would be admitted at once, as things stand."""
        return self._door.sessions_max()

    def admission_limits(self) -> list[Limit]:
        """Return what bounds the number of sessions, the limit that is nearest first."""
        return self._door.limits()

    @property
    def draining(self) -> bool:
        """No new sessions are taken; the live ones may finish."""
        return "draining" in self._reasons

    def live_sessions(self) -> list[LiveSession]:
        """Return what every live session is doing, oldest first."""
        return [
            LiveSession(
                key=key,
                transport=actor.transport_name,
                opened=actor.opened,
                began_at=began_at,
                state=actor.lane_state(),
            )
            for actor, (key, began_at) in zip(self._actors.values(), self._began.values(), strict=True)
        ]

    def stage_loads(self) -> list[StageLoad]:
        """Return how busy every stage is."""
        return self._runners.loads()

    async def start(self, progress: Progress) -> None:
        """Load and warm every stage and the media path; `ready` follows.

        Raises:
            PackError: the model cannot be loaded.
        Cancel: a load in progress goes on in its thread; `close` gives everything back.
        """
        progress("media path")
        await warm_media(self._settings.media)
        for stage in self.pack.stages:
            await asyncio.to_thread(stage.load, progress)
        gc.collect()
        gc.freeze()  # what is loaded stays; the collector need not look at it again in the middle of a turn
        self._reasons.clear()
        self._door.open()

    def check_room(self) -> None:
        """Refuse a session before anything is done for it; one that passes is decided on when it is opened.

        Raises:
            ServerBusy: no room, or not ready.
        """
        self._door.check(self.not_ready_reasons)

    # Sessions. ------------------------------------------------------------------------------------------------------

    async def open_call(
        self, offer_sdp: str, session: dict[str, Any] | None, tenant: str = "default"
    ) -> tuple[str, str]:
        """Open a WebRTC session; return the call's id and the SDP answer.

        Args:
            tenant: whose share of the stages it takes.

        Raises:
            OfferError: the offer is wrong. SessionRejected: the session object is. ServerBusy: no room.
        Cancel: closes what was opened.
        """
        call_id, config, new_id = self._begin("rtc", session)
        self._door.admit(self.not_ready_reasons)
        actor = self._open(call_id, config, "webrtc", new_id, tenant)
        peer = self._peers[call_id] = WebRtcPeer(
            sink=actor, ticker=self._ticker, media=self._media, server=self._settings.server
        )
        actor.attach(peer)
        try:
            return call_id, await peer.answer(offer_sdp)
        except BaseException:
            await peer.close("server")
            actor.closed("server")
            raise

    def open_websocket(
        self, transport: Transport, session: dict[str, Any] | None, tenant: str = "default"
    ) -> SessionActor:
        """Open a session on a WebSocket whose events go to `transport`.

        Raises:
            SessionRejected, ServerBusy: as `open_call`.
        """
        session_id, config, new_id = self._begin("sess", session)
        self._door.admit(self.not_ready_reasons)
        actor = self._open(session_id, config, "websocket", new_id, tenant)
        actor.attach(transport)
        pump = self._pumps[session_id] = _Pump(actor)
        self._ticker.add(pump)
        return actor

    async def hangup(self, call_id: str) -> bool:
        """End a call, or take note that it has ended already; False when there was none of that id lately."""
        actor = self._actors.get(call_id)
        if actor is None:  # a client hangs up and closes its connection, and the closing may arrive first
            return call_id in self._ended
        await actor.close("client")
        return True

    async def drain(self) -> None:
        """Refuse new sessions and wait until those that live have ended. Cancel: at any time."""
        if "draining" not in self._reasons:
            self._reasons.append("draining")
        await self._empty.wait()

    async def close(self) -> None:
        """End every session and give everything back."""
        if "closed" not in self._reasons:
            self._reasons.append("closed")
        self._door.close()
        actors = list(self._actors.values())
        for outcome in await asyncio.gather(*(actor.close("server") for actor in actors), return_exceptions=True):
            if isinstance(outcome, BaseException):
                _log.error("close_failed", exc_info=outcome)
        self._ticker.close()
        self._executor.close()
        for stage in self.pack.stages:
            stage.close()

    # Inside. --------------------------------------------------------------------------------------------------------

    def _begin(self, prefix: str, session: dict[str, Any] | None) -> tuple[str, SessionConfig, Callable[[str], str]]:
        random = Random(os.urandom(16))

        def new_id(kind: str) -> str:
            return f"{kind}_{random.getrandbits(80):020x}"

        session_id = new_id(prefix)
        return session_id, initial(self._context.profile, session_id=session_id, session=session), new_id

    def _open(
        self,
        session_id: str,
        config: SessionConfig,
        transport: TransportName,
        new_id: Callable[[str], str],
        tenant: str,
    ) -> SessionActor:
        context = replace(self._context, observe=self._door.watched())
        actor = SessionActor(
            session_id, config, transport, context, new_id, lambda: JobId(next(self._jobs)), self._closed, tenant
        )
        self._actors[session_id] = actor
        self._began[session_id] = next(self._keys), self._executor.now()
        self._empty.clear()
        self._observe("duplex_sessions", self.sessions, {})
        _log.info("session_opened", session_id=session_id, transport=transport, live=self.sessions)
        return actor

    def _close_transport(self, transport: Transport, reason: str) -> None:
        """A session broke: its connection goes too."""
        closing = asyncio.ensure_future(transport.close(reason))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _closed(self, session_id: str) -> None:
        self._actors.pop(session_id, None)
        self._ended.append(session_id)
        self._began.pop(session_id, None)
        self._peers.pop(session_id, None)
        pump = self._pumps.pop(session_id, None)
        if pump is not None:
            self._ticker.remove(pump)
        self._observe("duplex_sessions", self.sessions, {})
        if not self._actors:
            self._empty.set()
