"""What the app needs of whoever holds the sessions; `duplex.actor.host` is it, tests have a fake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from duplex.actor.detached import Owner
from duplex.actor.watch import LiveSession
from duplex.media.contract import Transport
from duplex.stages.contract import ModelPack, Progress
from duplex.stages.runner import StageLoad
from duplex.telemetry.live import Limit


class EventSink(Protocol):
    """The part of a session that a WebSocket feeds (see `MediaSink`)."""

    @property
    def backlog_ms(self) -> int:
        """Input that has arrived and is not analysed yet."""

    def channel_open(self, last_event_id: str | None = None) -> None:
        """Events can be sent; called once, before the first `receive`.

        Args:
            last_event_id: id of the last event that the client saw of the session that it comes back to, as it says.
        """

    def receive(self, text: str | bytes) -> None:
        """Take one client event; bytes when it was no text."""

    def closed(self, reason: str) -> None:
        """The connection is gone; called once, last. Reasons: client, left, vanished, server, error."""


class SessionHost(Protocol):
    """All sessions of the process, and the model that they talk to."""

    @property
    def pack(self) -> ModelPack: ...

    @property
    def ready(self) -> bool:
        """Whether a session opened at this moment would be served."""

    @property
    def not_ready_reasons(self) -> list[str]:
        """Why not; empty when ready."""

    @property
    def sessions(self) -> int:
        """Live sessions."""

    @property
    def sessions_max(self) -> int:
        """Sessions that would be admitted at once, as things stand."""

    def preview(self, session: dict[str, Any], *, locked: bool) -> dict[str, Any]:
        """Return the session object that sessions would open with, as their client may see it.

        Raises:
            SessionRejected: `session` is wrong.
        """

    def check_room(self) -> None:
        """Refuse a session before anything is done for it; one that passes is decided on when it is opened.

        Raises:
            ServerBusy: no room, or not ready.
        """

    @property
    def draining(self) -> bool:
        """No new sessions are taken; the live ones may finish."""

    def live_sessions(self) -> Sequence[LiveSession]:
        """Every live session, oldest first."""

    def stage_loads(self) -> Sequence[StageLoad]:
        """How busy every stage is, in the order of the graph."""

    def admission_limits(self) -> Sequence[Limit]:
        """What bounds the number of sessions."""

    async def start(self, progress: Progress) -> None:
        """Load the model and warm everything; `ready` follows.

        Raises:
            PackError: the model cannot be loaded.
        Cancel: leaves the host as after `close`.
        """

    def lives(self, session_id: str) -> bool:
        """Whether a session of this id has not ended."""

    async def open_call(
        self,
        offer_sdp: str,
        session: dict[str, Any] | None,
        owner: Owner,
        token: str | None = None,
        *,
        locked: dict[str, Any] | None = None,
        rtvi: bool = False,
        lost: bool = False,
        last_event_id: str | None = None,
    ) -> tuple[str, str]:
        """Open a WebRTC session, or resume one.

        Args:
            owner: whose share of the stages it takes, and who may resume it.
            token: of the session to resume.
            locked: the session object of the lock that its client is under; None: under none.
            rtvi: the client speaks RTVI.
            lost: it comes back to a session that is no more, and is told so.
            last_event_id: id of the last event that the client saw of that session.

        Returns:
            The call's id (`rtc_…`) and the SDP answer.
        Raises:
            OfferError: the offer is wrong; carries the HTTP status.
            SessionRejected: the session object is wrong.
            ServerBusy: no room.
            ResumeRefused: there is nothing to resume.
        Cancel: closes what was opened.
        """

    def keep_token(self, call_id: str, token: str | None) -> str:
        """Return the token by which an RTVI client names its call from now on, whatever becomes of its connection.

        Args:
            token: the one that it has; None: it has none yet.
        Raises:
            ResumeRefused: the call has ended.
        """

    def call_of(self, token: str, owner: Owner) -> str | None:
        """Return the RTVI client's call that a token names, if it is the owner's and has not ended."""

    async def answer_again(self, call_id: str, owner: Owner, offer_sdp: str) -> str | None:
        """Take a further offer on a call's connection and return the answer; None as `add_candidates`.

        Raises:
            OfferError: it brings more than candidates.
        """

    async def add_candidates(self, call_id: str, owner: Owner, lines: Sequence[str]) -> bool:
        """Take ICE candidates of a call's client; False where the owner has no connected call of this id.

        Raises:
            OfferError: there are too many.
        """

    def open_websocket(
        self,
        transport: Transport,
        session: dict[str, Any] | None,
        owner: Owner,
        token: str | None = None,
        *,
        locked: dict[str, Any] | None = None,
    ) -> EventSink:
        """Open a session on a WebSocket whose events go to `transport`, or resume one.

        Raises:
            SessionRejected, ServerBusy, ResumeRefused: as `open_call`.
        """

    def open_side_channel(self, call_id: str, transport: Transport, owner: Owner) -> EventSink:
        """Open a further control connection onto a live call, whose events go to `transport`.

        Raises:
            CallNotFound: there is no such call of this owner. TooManySideChannels: it has as many as it may.
        """

    async def hangup(self, call_id: str, owner: Owner) -> bool:
        """End a call of the owner's, or take note that it has ended already; False when there was none of that id lately."""

    async def drain(self) -> None:
        """Refuse new sessions and wait until those that live have ended. Cancel: at any time."""

    async def close(self) -> None:
        """End every session and give everything back."""
