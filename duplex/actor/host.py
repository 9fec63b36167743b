"""The host: all sessions of the process, the model they talk to, and the clock that their audio leaves by."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import structlog

from duplex.actor.actor import SessionActor
from duplex.actor.attachment import Attachment
from duplex.actor.connections import Connections
from duplex.actor.context import ActorContext
from duplex.actor.detached import Owner
from duplex.actor.door import Door
from duplex.actor.executor import ThreadExecutor
from duplex.actor.resume import Resumption
from duplex.actor.side_channel import SideChannel
from duplex.actor.watch import LiveSession, SessionRecorder, Watch
from duplex.config import Settings
from duplex.media import processing
from duplex.media.channel import LABEL, RTVI_LABEL
from duplex.media.contract import Transport
from duplex.media.peer import WebRtcPeer
from duplex.media.ticker import Ticker
from duplex.media.video import video_rate
from duplex.media.warm import warm_media
from duplex.pacing.admission import Limit
from duplex.pacing.policies import make_policy
from duplex.payloads import JobId, Role
from duplex.protocol import CallNotFound, TransportName, WireProfile, initial
from duplex.protocol.images import bounds_of
from duplex.protocol.lock import shown
from duplex.protocol.rtvi import RtviWire
from duplex.protocol.strict_json import bounds_of as json_bounds
from duplex.protocol.tools import bounds_of as tool_bounds
from duplex.session.config import SessionConfig
from duplex.session.core import SessionCore
from duplex.session.greeting import greeting_of
from duplex.stages.contract import ModelPack, PackError, Progress
from duplex.stages.graph import build_graph
from duplex.stages.process import isolated
from duplex.stages.run import StageRunners
from duplex.stages.runner import StageLoad
from duplex.units import MonoNs

_log = structlog.get_logger("duplex.host")
_Measure = Callable[[str, float, dict[str, str]], None]
_ANYBODY = Owner(tenant="default", key=None)


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


def _profile(settings: Settings, pack: ModelPack, *, recorded: bool) -> WireProfile:
    """Return what the protocol has to know of the server."""
    transcribes = any(stage.spec.role is Role.TRANSCRIBE for stage in pack.stages)
    return WireProfile(
        model=pack.name,
        voices=pack.voices,
        lead_ms=settings.pacing.lead_ms_websocket,
        on_onset=settings.barge_in.on_onset,
        voice_threshold=settings.turn.voice_threshold,
        prefix_padding_ms=settings.turn.prefix_padding_ms,
        text_chars_max=settings.conversation.text_chars_max,
        greeting=greeting_of(settings.session),
        recorded=recorded,
        processes_audio=settings.media.processing == "apm",
        images=bounds_of(settings.conversation, reads=pack.reads_images),
        tools=tool_bounds(settings.tools, calls=pack.calls),
        calls_awaited_max=settings.tools.awaited_max,
        json=json_bounds(settings.server),
        transcribes=transcribes,
        audio_ms_max=settings.conversation.audio_ms_max if transcribes else 0,
    )


class SessionHost:
    """Opens and ends sessions. Made on the loop's thread; nothing is loaded before `start`.

    Args:
        settings: the whole configuration.
        pack: what sessions talk to.
        observe: takes measures.
        watch: looks at sessions and stages.
        recorder: records every session.
    Raises:
        PackError: the pack's graph is wrong, a stage cannot have the process that the configuration gives it, or audio
            processing is wanted and not installed.
    """

    def __init__(
        self, settings: Settings, pack: ModelPack, observe: _Measure, watch: Watch | None = None,
        recorder: SessionRecorder | None = None,
    ) -> None:  # fmt: skip
        self.pack = pack = isolated(pack, settings.stages)
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
        self._recorder = recorder
        self._actors: dict[str, SessionActor] = {}
        self._resume = Resumption(settings.server, self._executor, observe, self._end)
        self._connections = Connections(
            self._actors, self._resume, self._executor.now, self._close_transport, lambda: not self._reasons
        )
        self._context = ActorContext(
            settings=settings, profile=_profile(settings, pack, recorded=recorder is not None), runners=self._runners,
            executor=self._executor, observe=observe,
            close=self._close_transport, tick_ms=pack.tick_ms, watch=watch, offer=self._resume.offer, come_back=self._connections.come_back,
            processing=_processing(settings), make_core=SessionCore if recorder is None else recorder.core,
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
        self._keys = itertools.count(1)
        self._began: dict[str, tuple[int, MonoNs]] = {}
        """By session: the number that names it to those who watch, and when it began."""
        self._ended: deque[str] = deque(maxlen=settings.server.ended_calls_max)
        """Ids of the sessions that ended last."""
        self._pumps: dict[str, _Pump] = {}
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
        return [*self._reasons, *self._runners.troubles()]

    @property
    def sessions(self) -> int:
        """Live sessions, connecting ones and those that wait for their client included."""
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

    def preview(self, session: dict[str, Any], *, locked: bool) -> dict[str, Any]:
        """Return the session object that sessions would open with, as their client may see it.

        Raises:
            SessionRejected: `session` is wrong.
        """
        bound, lock = (None, session) if locked else (session, None)
        return shown(self._begin("sess", bound, lock)[1])

    def check_room(self) -> None:
        """Refuse a session before anything is done for it; one that passes is decided on when it is opened.

        Raises:
            ServerBusy: no room, or not ready.
        """
        self._door.check(self.not_ready_reasons)

    # Sessions. ------------------------------------------------------------------------------------------------------

    def lives(self, session_id: str) -> bool:
        """Whether a session of this id has not ended."""
        return session_id in self._actors

    async def open_call(
        self,
        offer_sdp: str,
        session: dict[str, Any] | None,
        owner: Owner = _ANYBODY,
        token: str | None = None,
        *,
        locked: dict[str, Any] | None = None,
        rtvi: bool = False,
        lost: bool = False,
        last_event_id: str | None = None,
    ) -> tuple[str, str]:
        """Open a WebRTC session, or resume one; return the call's id and the SDP answer.

        Args:
            owner: whose share of the stages it takes, and who may resume it.
            token: of the session to resume, which keeps its configuration.
            locked: the session object of the lock that its client is under; None: under none.
            rtvi: the client speaks RTVI.
            lost: it comes back to a session that is no more, and is told so.
            last_event_id: id of the last event that the client saw of that session; its data channel may name a later one.

        Raises:
            OfferError: the offer is wrong. SessionRejected: the session object is. ServerBusy: no room.
            ResumeRefused: there is nothing to resume.
        Cancel: closes what was opened.
        """
        if token is not None:
            actor = self._connections.find(token, owner, "webrtc", rtvi=rtvi)
        else:
            call_id, config, new_id = self._begin("rtc", session, locked)
            self._door.admit(self.not_ready_reasons)
            wire = RtviWire(self._context.profile, lambda: datetime.now(UTC).isoformat(), lost=lost) if rtvi else None
            actor = self._open(call_id, config, "webrtc", new_id, owner, wire)
        attachment = self._connections.hold(actor, last_event_id)
        peer = WebRtcPeer(
            sink=attachment, ticker=self._ticker, media=self._media, server=self._settings.server,
            label=RTVI_LABEL if rtvi else LABEL,
        )  # fmt: skip
        try:
            answer = await peer.answer(offer_sdp)
            if actor.ended:  # meanwhile
                self._resume.refuse()
        except BaseException:
            attachment.release()
            await peer.close("server")
            if token is None:
                actor.closed("server")
            raise
        self._connections.attach(actor, attachment, peer, resumed=token is not None)
        return actor.session_id, answer

    def keep_token(self, call_id: str, token: str | None) -> str:
        """Return the token by which an RTVI client names its call from now on, whatever becomes of its connection.

        Args:
            token: the one that it has; None: it has none yet.
        Raises:
            ResumeRefused: the call has ended.
        """
        if call_id not in self._actors:
            self._resume.refuse()
        return self._resume.keep(call_id, token)

    def call_of(self, token: str, owner: Owner) -> str | None:
        """Return the RTVI client's call that a token names, if it is the owner's and has not ended."""
        call_id = self._resume.session_of(token, owner)
        return call_id if call_id is not None and self._actors[call_id].rtvi else None

    async def answer_again(self, call_id: str, owner: Owner, offer_sdp: str) -> str | None:
        """Take a further offer on a call's connection and return the answer; None as `add_candidates`.

        Raises:
            OfferError: it brings more than candidates.
        """
        peer = self._connections.peer(call_id, owner)
        return None if peer is None else await peer.answer(offer_sdp)

    async def add_candidates(self, call_id: str, owner: Owner, lines: Sequence[str]) -> bool:
        """Take ICE candidates of a call's client; False where the owner has no connected call of this id.

        Raises:
            OfferError: there are too many.
        """
        peer = self._connections.peer(call_id, owner)
        if peer is None:
            return False
        await peer.add_candidates(lines)
        return True

    def open_websocket(
        self,
        transport: Transport,
        session: dict[str, Any] | None,
        owner: Owner = _ANYBODY,
        token: str | None = None,
        *,
        locked: dict[str, Any] | None = None,
    ) -> Attachment:
        """Open a session on a WebSocket whose events go to `transport`, or resume one.

        Raises:
            SessionRejected, ServerBusy, ResumeRefused: as `open_call`.
        """
        if token is not None:
            actor = self._connections.find(token, owner, "websocket")
        else:
            session_id, config, new_id = self._begin("sess", session, locked)
            self._door.admit(self.not_ready_reasons)
            actor = self._open(session_id, config, "websocket", new_id, owner)
            pump = self._pumps[session_id] = _Pump(actor)
            self._ticker.add(pump)
        attachment = self._connections.hold(actor)
        self._connections.attach(actor, attachment, transport, resumed=token is not None)
        return attachment

    def open_side_channel(self, call_id: str, transport: Transport, owner: Owner = _ANYBODY) -> SideChannel:
        """Open a further control connection onto a live call, whose events go to `transport`.

        Raises:
            CallNotFound: there is no such call of this owner. TooManySideChannels: it has as many as it may.
        """
        actor = self._actors.get(call_id)
        if actor is None or actor.transport_name != "webrtc" or not self._resume.owns(owner, call_id):
            raise CallNotFound
        _log.info("side_channel_opened", session_id=call_id)
        return actor.open_side_channel(transport)

    async def hangup(self, call_id: str, owner: Owner = _ANYBODY) -> bool:
        """End a call of the owner's, or take note that it has ended already; False when there was none of that id lately."""
        actor = self._actors.get(call_id)
        if actor is not None and not self._resume.owns(owner, call_id):
            return False
        if actor is None:  # a client hangs up and closes its connection, and the closing may arrive first
            return call_id in self._ended
        await actor.close("hangup")
        return True

    async def drain(self) -> None:
        """Refuse new sessions and wait until those that live have ended. Cancel: at any time."""
        if "draining" not in self._reasons:
            self._reasons.append("draining")
        self._resume.end_waiting("server")
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
        await asyncio.to_thread(self._executor.join, self._settings.stages.join_timeout_s)
        self._runners.close()

    # Inside. --------------------------------------------------------------------------------------------------------

    def _begin(
        self, prefix: str, session: dict[str, Any] | None, locked: dict[str, Any] | None
    ) -> tuple[str, SessionConfig, Callable[[str], str]]:
        random = Random(os.urandom(16))

        def new_id(kind: str) -> str:
            return f"{kind}_{random.getrandbits(80):020x}"

        session_id = new_id(prefix)
        length_s = self._settings.session.length_s_max
        expires_at = int(datetime.now(UTC).timestamp()) + length_s if length_s else None
        config = initial(
            self._context.profile, session_id=session_id, session=session, expires_at=expires_at, locked=locked
        )
        return session_id, config, new_id

    def _open(
        self,
        session_id: str,
        config: SessionConfig,
        transport: TransportName,
        new_id: Callable[[str], str],
        owner: Owner,
        rtvi: RtviWire | None = None,
    ) -> SessionActor:
        context = replace(self._context, observe=self._door.watched())
        if rtvi is not None:  # it keeps one token for good
            context = replace(context, offer=lambda session_id: None)
        actor = SessionActor(
            session_id, config, transport, context, new_id, lambda: JobId(next(self._jobs)), self._closed,
            owner.tenant, rtvi=rtvi,
        )  # fmt: skip
        self._actors[session_id] = actor
        self._resume.began(session_id, owner)
        self._began[session_id] = next(self._keys), self._executor.now()
        self._empty.clear()
        self._observe("duplex_sessions", self.sessions, {})
        _log.info("session_opened", session_id=session_id, transport=transport, live=self.sessions)
        return actor

    def _end(self, session_id: str, reason: str) -> None:
        self._actors[session_id].closed(reason)

    def _close_transport(self, transport: Transport, reason: str) -> None:
        """End a connection, and wait for nothing."""
        closing = asyncio.ensure_future(transport.close(reason))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _closed(self, session_id: str) -> None:
        if self._recorder is not None:
            self._recorder.ended(session_id)
        self._actors.pop(session_id, None)
        self._ended.append(session_id)
        self._began.pop(session_id, None)
        self._connections.ended(session_id)
        self._resume.ended(session_id)
        pump = self._pumps.pop(session_id, None)
        if pump is not None:
            self._ticker.remove(pump)
        self._observe("duplex_sessions", self.sessions, {})
        if not self._actors:
            self._empty.set()
