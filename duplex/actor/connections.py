"""Which transport each session has: it comes, is lost, and another takes its place.

attach       a session's first, or the one that its client comes back on; a former one that is still there goes
come_back    an event on a connection brings back the session that its token names (resume.md)
lost         the session ends with it, or waits for another
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from duplex.actor.actor import SessionActor
from duplex.actor.attachment import Attachment
from duplex.actor.detached import Owner
from duplex.actor.resume import Resumption
from duplex.media.contract import Transport
from duplex.media.peer import WebRtcPeer
from duplex.protocol import ComeBack, ResumeRefused, TransportName
from duplex.units import MonoNs


class Connections:
    """Those of all sessions.

    Args:
        actors: every live session, by id; the host's.
        resume: sessions that may be resumed.
        now: the clock.
        close: ends a transport, for a reason.
        stays: whether the server goes on, so that a session may wait for its client.
    """

    def __init__(
        self, actors: Mapping[str, SessionActor], resume: Resumption, now: Callable[[], MonoNs],
        close: Callable[[Transport, str], None], stays: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._actors = actors
        self._resume = resume
        self._now = now
        self._close = close
        self._stays = stays
        self._attachments: dict[str, Attachment] = {}
        """By session: the hold of its present transport."""

    def find(self, token: str, owner: Owner, transport: TransportName, *, rtvi: bool = False) -> SessionActor:
        """Return the session that a token resumes on a transport.

        Raises:
            ResumeRefused: none.
        """
        actor = self._actors[self._resume.find(token, owner)]
        if actor.transport_name != transport or actor.rtvi != rtvi:
            self._resume.refuse()
        return actor

    def peer(self, call_id: str, owner: Owner) -> WebRtcPeer | None:
        """Return the connection of an owner's call; None: there is none."""
        attachment = self._attachments.get(call_id)
        if attachment is None or not self._resume.owns(owner, call_id):
            return None
        return attachment.transport if isinstance(attachment.transport, WebRtcPeer) else None

    def hold(self, actor: SessionActor, last_event_id: str | None = None) -> Attachment:
        """Return a hold on a session, for a transport that is yet to be attached.

        Args:
            last_event_id: id of the last event that the client saw of the session, as it says.
        """
        return Attachment(actor, self._now, self._lost_of(actor), last_event_id)

    def attach(self, actor: SessionActor, attachment: Attachment, transport: Transport, *, resumed: bool) -> None:
        """Give a session its transport; a former one that is still there goes."""
        former = self._attachments.get(actor.session_id)
        if former is not None:
            former.release()
            self._detach(actor, former)
            if former.transport is not None:
                self._close(former.transport, "taken_over")
        if actor.ended:  # it broke as it was detached
            self._close(transport, "error")
            return
        attachment.transport = transport
        self._attachments[actor.session_id] = attachment
        actor.attach(transport)
        if resumed:
            self._resume.attached(actor.session_id)

    def come_back(self, session_id: str, asked: ComeBack) -> None:
        """A client wants to go on, on the connection of this session, with the one that its token resumes."""
        here, attachment = self._actors[session_id], self._attachments[session_id]
        try:
            actor = self._actors[self._resume.find(asked.token, self._resume.owner(session_id))]
            if actor is here and here.transport_name == "webrtc":  # on another data channel of the same call
                here.channel_open(asked.last_event_id)
                return
            first = attachment.received == 1 and actor is not here
            if not first or not here.transport_name == actor.transport_name == "websocket":
                self._resume.refuse()
        except ResumeRefused:
            here.refuse_return(asked.event_id)
            return
        transport = attachment.transport
        assert transport is not None, "the client has spoken on it"
        self._detach(here, attachment)
        here.closed("resumed")
        attachment.move(actor, self._lost_of(actor))
        self.attach(actor, attachment, transport, resumed=True)
        attachment.channel_open(asked.last_event_id)

    def ended(self, session_id: str) -> None:
        """A session has ended."""
        self._attachments.pop(session_id, None)

    def _detach(self, actor: SessionActor, attachment: Attachment) -> None:
        del self._attachments[actor.session_id]
        actor.detach(MonoNs(self._now() - attachment.heard_at))

    def _lost_of(self, actor: SessionActor) -> Callable[[Attachment, str], None]:
        return lambda attachment, reason: self._lost(actor, attachment, reason)

    def _lost(self, actor: SessionActor, attachment: Attachment, reason: str) -> None:
        waits = actor.resumable and not actor.ended and self._stays()
        if waits and self._resume.waits(actor.session_id, attachment, actor.way, reason):
            self._detach(actor, attachment)
        else:
            actor.closed(reason)
