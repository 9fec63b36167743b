"""What a session says, on its way to the transport: queued, sent ahead or at real time, and told to the core as `Sent`."""

from __future__ import annotations

from collections.abc import Callable

from duplex.actor.context import ActorContext
from duplex.media.contract import WEBSOCKET_RATE
from duplex.media.egress import EgressQueue, Popped
from duplex.payloads import CONVERSATION_LANE
from duplex.session.effects import CutLane, Enqueue
from duplex.session.events import ReplyAudio
from duplex.session.lane import Lane
from duplex.session.messages import Sent
from duplex.session.traits import Traits
from duplex.timeline.playback import WallClockPlayer
from duplex.units import POSITION_RATE, PTIME, MonoNs, Samples, samples_from_ms, seconds_from_ns

_REPORT_EVERY = samples_from_ms(200)
"""Output between two `Sent` messages, when nothing special happens."""
_DELTA_SAMPLES = WEBSOCKET_RATE // 5
"""Greatest length of one WebSocket audio delta: 200 ms."""
_UNBOUNDED_MS_MAX = 600_000
"""Bound on unsent audio under a scheduling policy that does not keep to the lead target."""
_ITEMS_KEPT = 8
"""Replies whose item is known, for those that still play."""


class Speaker:
    """The output side of one session.

    Args:
        session_id: for addresses.
        context, traits: of the process, and of the session.
        lane: the core's, which is looked at here and changed by the core alone.
        told: takes what has left.
        send: takes the audio of a WebSocket session.
        number: of the lane whose audio it is; an out-of-band reply's runs ahead as the conversation's does.
    """

    def __init__(
        self, session_id: str, context: ActorContext, traits: Traits, lane: Lane, told: Callable[[Sent], None],
        send: Callable[[ReplyAudio], None], number: int = CONVERSATION_LANE,
    ) -> None:  # fmt: skip
        self._executor = context.executor
        self._observe = context.observe
        self._lane = lane
        self._number = number
        self._told = told
        self._send = send
        self._webrtc = traits.transport == "webrtc"
        pacing = context.settings.pacing
        self.egress = EgressQueue(
            session_id,
            number,
            POSITION_RATE if self._webrtc else WEBSOCKET_RATE,
            context.runners.lanes,
            pacing.generated_ms_max if traits.bounded else _UNBOUNDED_MS_MAX,
            pacing.tick_start_delay_ms if traits.tick_mode else 0,
            one_reply=not self._webrtc,
        )
        self._items: dict[str, str] = {}
        self._playing: str | None = None
        self._cut_at: MonoNs | None = None
        """When the lane was cut, until the next packet has left."""
        self._pumped = 0
        self._player = WallClockPlayer()

    def attach(self) -> None:
        """Another transport leads to the listener."""
        self._playing = self._cut_at = None

    def enqueue(self, effect: Enqueue) -> bool:
        """Queue audio of a reply; return False if that is more than may wait."""
        assert effect.address.reply is not None
        self._items[effect.address.reply] = effect.item_id
        if effect.last and len(self._items) > _ITEMS_KEPT:
            self._items.pop(next(iter(self._items)))
        return self.egress.enqueue(effect.address, effect.audio, effect.last)

    def cut(self, effect: CutLane, now: MonoNs) -> Sent:
        """Let nothing of an older epoch leave; return what had left before."""
        self._cut_at = now
        self.egress.cut(effect.epoch, effect.fade_ms if self._webrtc else 0)
        self._player.flush(now)
        self._pumped = self._player.position(now)
        return self._sent(cut=effect.epoch)

    def pop(self, now: MonoNs) -> Popped | None:
        """WebRTC: return the next 20 ms to send, or None when there is nothing to say."""
        if self._cut_at is not None:
            took = seconds_from_ns(MonoNs(now - self._cut_at))
            self._observe("duplex_barge_in_seconds", took, {"part": "egress"})
            self._cut_at = None
        egress = self.egress
        if egress.idle and self._playing is None and not egress.unreported:
            return None
        popped = egress.pop(PTIME)
        if popped is None:
            self._playing = None
            self._report()
            return None
        if popped.epoch < self._lane.epoch:
            self._observe("duplex_stale_packets_total", 1, {})
        if popped.reply != self._playing or egress.unreported >= _REPORT_EVERY:
            self._playing = popped.reply
            self._report()
        return popped

    def pump(self) -> None:
        """WebSocket: send waiting audio, as far ahead of the client's player as this session may run."""
        if not self.egress.waiting:
            return
        now = self._executor.now()
        lead_ms = self._lane.lead_ms
        n = min(_DELTA_SAMPLES, self.egress.waiting // 2)
        if lead_ms is not None:
            ahead = self._pumped - self._player.position(now)
            n = min(n, (samples_from_ms(lead_ms) - ahead) // 2)
        popped = self.egress.pop(n) if n > 0 else None
        if popped is None:
            return
        if popped.reply is not None:
            self._note_gap(popped.reply, now)
            self._pumped += 2 * n
            self._player.sent(self._pumped, now)
            item = self._items.get(popped.reply, "")
            self._send(ReplyAudio(reply_id=popped.reply, item_id=item, pcm=popped.pcm))
        self._report()

    def _note_gap(self, reply: str, now: MonoNs) -> None:
        """WebSocket: a client's player that ran dry inside a reply is an underrun."""
        dry_ns = now - self._player.dry_at(now)
        if reply == self._playing and dry_ns > 0:
            self._observe("duplex_underruns_total", 1, {"observed": "sent"})
            self._observe("duplex_underrun_seconds_total", seconds_from_ns(MonoNs(dry_ns)), {"observed": "sent"})
        self._playing = reply

    def _sent(self, cut: int | None = None) -> Sent:
        report = self.egress.report()
        return Sent(
            lane=self._number,
            ranges=report.ranges if report is not None else (),
            underruns=report.underruns if report is not None else 0,
            underrun=report.underrun if report is not None else Samples(0),
            cut=cut,
        )

    def _report(self) -> None:
        sent = self._sent()
        if sent.ranges or sent.underruns:
            self._told(sent)
