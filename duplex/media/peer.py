"""One WebRTC client: aiortc's signalling, ICE, DTLS and data channel, our audio and video, one `MediaSink`.

    answer ──► (ICE, DTLS) ──► connected ──► … ──► closed(reason)          channel_open at any time in between
        └── connect_timeout ───────────────────────┘

All callbacks run on the loop; an error in one ends this peer alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import ParamSpec

import structlog
from aiortc import RTCPeerConnection, RTCSessionDescription

from duplex.config import MediaSettings, ServerSettings
from duplex.media import rtc, sdp
from duplex.media.candidates import host_addresses, is_loopback, lines_in, usable
from duplex.media.channel import LABEL, EventsChannel
from duplex.media.contract import MediaSink, TooLarge
from duplex.media.packets import PacketPath, PeerStats
from duplex.media.ticker import Ticker
from duplex.media.warm import certificate
from duplex.units import MonoNs, ns_from_seconds

_WATCH_S = 0.25
_CONSENT_S_MAX = 2.0
_CONSENT_EXPIRES = ns_from_seconds(30)
"""RFC 7675 §5.1: without consent for this long nothing may be sent, whatever arrives."""
_ANSWER_S_MAX = 5.0
_TEARDOWN_S_MAX = 3.0
_log = structlog.get_logger(__name__)
_P = ParamSpec("_P")


def read_offer(text: str, server: ServerSettings) -> sdp.Offer:
    """Read an offer within the server's limits.

    Raises:
        sdp.OfferError: it is refused.
    """
    return sdp.read(
        text,
        bytes_max=server.sdp_bytes_max,
        candidates_max=server.candidates_max,
        loopback=is_loopback(server.host),
        denied=server.ice_denied,
    )


class WebRtcPeer:
    """A client over WebRTC; implements `Transport`.

    Args:
        sink: the session; told nothing before `answer` has returned an answer, and `closed` once, last.
        ticker: shared by the process.
        media, server: settings; of the server's: limits on offers, timeouts, the outbox and the address bound.
        label: of the data channel that carries the events.
    """

    def __init__(
        self, *, sink: MediaSink, ticker: Ticker, media: MediaSettings, server: ServerSettings, label: str = LABEL
    ) -> None:
        self._sink = sink
        self._ticker = ticker
        self._settings = media
        self._server = server
        self._label = label
        self._loop = asyncio.get_running_loop()
        self._pc: RTCPeerConnection | None = None
        self._channel: EventsChannel | None = None
        self._link: rtc.Link | None = None
        self._offer: sdp.Offer | None = None
        self._packets: PacketPath | None = None
        self._receive: Callable[[bytes], None] | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._teardown_task: asyncio.Task[None] | None = None
        self._started = self._consent = MonoNs(0)
        self._reason: str | None = None
        self._answered = ""
        self._trickled: list[str] = []

    async def answer(self, offer_sdp: str) -> str:
        """Take a client's offer and return the answer.

        A second offer may have more candidates than the first, and nothing else that is new: the answer stays.

        Raises:
            sdp.OfferError: the offer is refused; nothing is left of it and the sink hears nothing.
        Cancel: gives everything back.
        """
        offer = read_offer(offer_sdp, self._server)
        if self._offer is not None:
            if _without_candidates(offer) != _without_candidates(self._offer):
                raise sdp.OfferError(409, "renegotiation is not supported: begin a new connection")
            await self.add_candidates(lines_in(offer.sdp))
            return self._answered
        if self._pc is not None:
            raise sdp.OfferError(409, "another offer is being answered")
        self._pc = rtc.connection(certificate())
        try:
            async with asyncio.timeout(_ANSWER_S_MAX):
                link = await self._negotiate(self._pc, offer)
        except BaseException as error:
            await self._pc.close()
            if isinstance(error, Exception):
                _log.warning("offer_unusable", error=type(error).__name__)
                raise sdp.OfferError(400, "the offer cannot be used") from error
            raise
        self._link, self._offer = link, offer
        link.tap(self._on_datagram)
        self._started = self._ticker.now()
        self._watch = self._loop.call_later(_WATCH_S, self._look)
        self._answered = sdp.finish(self._pc.localDescription.sdp, offer)
        return self._answered

    async def add_candidates(self, lines: Sequence[str]) -> None:
        """Take candidates that the client found after its offer; those that are not worth a check are ignored.

        Args:
            lines: values of `a=candidate`, as the client wrote them.
        Raises:
            sdp.OfferError: there are more than the limit.
        Source: RFC 8838.
        """
        server = self._server
        if len(self._trickled) + len(lines) > server.candidates_max:
            raise sdp.OfferError(400, f"the client has more than {server.candidates_max} ICE candidates")
        known = self._usable(self._trickled)
        self._trickled += lines
        if self._link is None or self._packets is not None or self._reason is not None:
            return  # connected, or over
        for line in self._usable(self._trickled)[len(known) :]:
            await self._link.add_candidate(line)

    def _usable(self, lines: Sequence[str]) -> list[str]:
        return usable(lines, loopback=is_loopback(self._server.host), denied=self._server.ice_denied)

    async def _negotiate(self, pc: RTCPeerConnection, offer: sdp.Offer) -> rtc.Link:
        server = self._server
        await pc.setRemoteDescription(RTCSessionDescription(sdp=offer.sdp, type="offer"))
        link = rtc.Link(pc, host_addresses(server.host))
        link.keep_consent(min(_CONSENT_S_MAX, server.vanish_timeout_s / 4), self._consent_given)
        pc.on("connectionstatechange", self._guarded(self._state_changed))
        if offer.channel:
            self._channel = EventsChannel(
                pc,
                label=self._label,
                outbox_bytes_max=server.outbox_bytes_max,
                message_bytes_max=offer.message_bytes_max,
                on_open=self._guarded(self._sink.channel_open),
                on_lost=self._guarded(self._sink.channel_lost),
                on_message=self._guarded(self._sink.receive),
                on_overflow=lambda: self._end("error"),
            )
        await pc.setLocalDescription(await pc.createAnswer())
        return link

    # Transport. -------------------------------------------------------------------------------------------------

    def send(self, event: str) -> TooLarge | None:
        """Queue one server event; see `Transport`. Without a data channel it goes nowhere."""
        if self._channel is None or self._reason is not None:
            return None
        return self._channel.send(event)

    async def close(self, reason: str) -> None:
        """End the connection; see `Transport`. Cancel: the teardown goes on."""
        self._end(reason)
        if self._teardown_task is not None:
            await asyncio.shield(self._teardown_task)

    def stats(self) -> PeerStats | None:
        """Return the counts, or None before media flowed."""
        return self._packets.stats() if self._packets is not None else None

    # What happens to it. ----------------------------------------------------------------------------------------

    def _state_changed(self) -> None:
        assert self._pc is not None
        state = self._pc.connectionState
        if state == "connected" and self._packets is None:
            self._connect()
        elif state == "failed":
            self._end("error" if self._packets is None else "vanished")
        elif state == "closed":
            self._end("client")

    def _connect(self) -> None:
        if self._reason is not None:
            return
        assert self._link is not None and self._offer is not None
        self._consent = self._ticker.now()
        self._packets = PacketPath(
            sink=self._sink,
            ticker=self._ticker,
            settings=self._settings,
            link=self._link,
            offer=self._offer,
            now=self._consent,
            failed=lambda: self._end("error"),
        )
        self._receive = self._guarded(self._packets.receive)
        self._sink.connected()

    def _on_datagram(self, data: bytes) -> None:
        if self._receive is not None:
            self._receive(data)

    def _consent_given(self) -> None:
        self._consent = self._ticker.now()

    def _look(self) -> None:
        """Close a peer that never connected, vanished or floods; look again shortly."""
        assert self._link is not None
        server, now = self._server, self._ticker.now()
        vanish = ns_from_seconds(server.vanish_timeout_s)
        if self._packets is None:
            if now - self._started >= ns_from_seconds(server.connect_timeout_s):
                self._end("connect_timeout")
        elif now - max(self._packets.heard_at, self._consent) >= vanish or now - self._consent >= max(
            _CONSENT_EXPIRES, vanish
        ):
            self._end("vanished")
        elif self._link.overrun():
            self._end("error")
        if self._reason is None:
            self._watch = self._loop.call_later(_WATCH_S, self._look)

    def _guarded(self, call: Callable[_P, None]) -> Callable[_P, None]:
        """Wrap a callback of a library: an error in it is logged and ends this peer, not the library's task."""

        def guarded(*args: _P.args, **kwargs: _P.kwargs) -> None:
            if self._reason is not None:
                return
            try:
                call(*args, **kwargs)
            except Exception:  # noqa: BLE001 - the root of what a library calls
                _log.exception("peer_failed")
                self._end("error")

        return guarded

    def _end(self, reason: str) -> None:
        if self._reason is not None or self._link is None:
            return
        self._reason = reason
        if self._watch is not None:
            self._watch.cancel()
        if self._channel is not None:
            self._channel.close()
        if self._packets is not None:
            self._packets.stop()
            _log_end(reason, self._packets.stats())
        self._teardown_task = asyncio.ensure_future(self._teardown(reason))

    async def _teardown(self, reason: str) -> None:
        assert self._pc is not None and self._link is not None
        try:
            async with asyncio.timeout(_TEARDOWN_S_MAX):
                await self._pc.close()
        except Exception:  # noqa: BLE001 - whatever fails here, the sockets go and the session is told
            _log.exception("teardown_failed")
            self._link.abort()
        finally:
            self._sink.closed(reason)


def _without_candidates(offer: sdp.Offer) -> list[str]:
    return [line for line in offer.sdp.splitlines() if not line.startswith("a=candidate:")]


def _log_end(reason: str, stats: PeerStats) -> None:
    """Tell in one line how the client's audio came over."""
    audio = stats.audio
    _log.info(
        "peer_ended",
        reason=reason,
        packets=audio.pushed,
        lost=audio.lost,
        late=audio.late,
        dropped=audio.dropped,
        concealed_ms=audio.concealed // 48,
        depth_ms=round(audio.depth_ms),
        unauthentic=stats.unauthentic,
    )
