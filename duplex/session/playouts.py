"""What has left of the lane's replies and what is heard of them, and what the client is told of that.

made    ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇
sent    │ playing; text leaves with its clause's sound   │ all: the terminal event (WebRTC: with the last text)
heard     │                                                │ all: drained
cut             │ settled when the egress has answered: the item ends with the last word that was heard
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from duplex.session.conversation import Conversation, Item
from duplex.session.effects import Outbox, ReleaseOutput
from duplex.session.events import (
    ItemTruncated,
    PlayoutCleared,
    PlayoutStarted,
    PlayoutStopped,
    ReplyDone,
    ReplyStatus,
    ReplyText,
    StatusReason,
    TurnMetrics,
)
from duplex.session.lane import Lane, Playout, Reply
from duplex.session.messages import PlaybackReport, Sent
from duplex.timeline.ledger import rtp_start
from duplex.units import MonoNs, RtpTicks, Samples, samples_from_ns, seconds_from_ns, seconds_from_samples


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOff:
    """What a cut has left of a reply."""

    reply: Reply
    unheard: bool
    """Not a word of it was heard."""
    short: bool
    """Words of it were not heard, or had not been made yet."""


class Playouts:
    """Follows the lane's replies to their ends.

    Args:
        lane: whose.
        conversation: what the client has deleted of it is told of no more; None: the replies are not in it.
        ended: called when a reply has had its terminal event: another may begin.
    """

    def __init__(
        self, lane: Lane, conversation: Conversation | None, outbox: Outbox, ended: Callable[[], None]
    ) -> None:  # fmt: skip
        self._lane = lane
        self._conversation = conversation
        self._webrtc = lane.webrtc is not None
        self._outbox = outbox
        self._ended = ended
        self.spoke = False
        """The session has made itself heard."""
        self._quiet = Samples(0)
        """Output that left for a client that was gone already."""

    # The listener's side moves. -------------------------------------------------------------------------------------

    def sent(self, msg: Sent, now: MonoNs) -> None:
        """Output has left."""
        if not self._lane.sent_ranges(msg.ranges, now):
            self._outbox.violated("fronts")
        if msg.underruns or msg.underrun:
            self._outbox.observe("duplex_underruns_total", msg.underruns, observed="sent")
            self._outbox.observe("duplex_underrun_seconds_total", seconds_from_samples(msg.underrun), observed="sent")
        for reply in list(self._lane):
            if reply.playout is Playout.QUEUED and self._lane.sent(reply):
                self._playing(reply, rtp_start(msg.ranges, msg.rtp_end, reply.id), now)
            self._tell_text(reply)

    def reported(self, msg: PlaybackReport, now: MonoNs) -> bool:
        """The client tells how far a reply has played; return False if that is over."""
        reply = self._lane.find(msg.reply)
        if reply is None:
            return False
        error = self._lane.report_played(reply, msg.played, now)
        self._outbox.observe("duplex_playback_error_seconds", seconds_from_samples(error))
        return True

    def settle(self, now: MonoNs) -> None:
        """Close what has left (WebSocket) and what has been played to its end."""
        if not self._lane.alive:
            return
        self._lane.advance(now)
        for reply in list(self._lane):
            self._tell_text(reply)
            if reply.ending is not None and not reply.done and self._all_told(reply):
                self._end(reply, reply.ending)
            if reply.done and reply.generated and self._lane.played(reply) >= reply.generated:
                reply.playout = Playout.DRAINED
                if self._webrtc:
                    self._outbox.send(PlayoutStopped(reply_id=reply.id))
                self._lane.remove(reply)

    def deadline(self, now: MonoNs) -> MonoNs | None:
        """Return when to settle again; None: something else will come before that."""
        lane = self._lane
        if not lane.alive or lane.waiting or not all(reply.done for reply in lane):
            return None
        return max(lane.dry_at(now), MonoNs(now + 1))

    def leave(self, quiet: MonoNs) -> None:
        """The client is away, and has given no sign of life for a while before that."""
        # On WebSocket the client plays on by itself what it has got.
        self._quiet = samples_from_ns(quiet) if self._webrtc else Samples(0)

    def come_back(self) -> None:
        """The client is there again, by another way."""
        self._quiet = Samples(0)
        self._lane.new_way()

    # Holds and cuts. ------------------------------------------------------------------------------------------------

    def resume(self) -> None:
        """A hold ends: go on with the reply that was playing, from a word's start."""
        playing = [reply for reply in self._lane if reply.playout is Playout.PLAYING]
        reply = playing[-1] if playing else None
        content = Samples(0)
        if reply is not None and reply.item is not None and reply.item.spoken is not None:
            content = reply.item.spoken.word_start(self._lane.sent(reply))
        self._outbox.add(ReleaseOutput(reply=reply.id if reply is not None else None, content=content))

    def settle_cut(self, epoch: int, reason: StatusReason, now: MonoNs) -> CutOff | None:
        """The egress is cut: what was heard is now known, to the word.

        Returns:
            The last reply that was cut; None: there was none.
        """
        self._lane.advance(now)
        cut: CutOff | None = None
        for reply in [reply for reply in self._lane if reply.address.epoch < epoch]:
            cut = self._settle_cut_of(reply, reason, now)
            self._lane.remove(reply)
        self._lane.flush_player(now)
        return cut

    def _settle_cut_of(self, reply: Reply, reason: StatusReason, now: MonoNs) -> CutOff:
        heard = Samples(max(0, self._lane.heard_at_cut(reply, now) - self._quiet))
        unheard = max(0, reply.generated - heard)
        item = reply.item
        cut_short = bool(unheard) or not reply.done
        if item is not None and cut_short:
            item.status, item.cut = "incomplete", True
            if item.spoken is not None:
                item.heard = heard if item.heard is None else min(item.heard, heard)
        if not reply.done:
            self._close_calls(reply)
        words = item.heard_text() if item is not None else ""
        heard_chars, spoken = len(words), item.spoken if item is not None else None
        share = 1 - heard_chars / max(1, reply.text_chars, heard_chars)
        self._outbox.observe("duplex_unheard_tokens_total", round(reply.text_tokens * share))
        self._outbox.observe("duplex_unheard_audio_seconds_total", seconds_from_samples(unheard))
        if self._webrtc and reply.playout is Playout.PLAYING:
            self._outbox.send(PlayoutCleared(reply_id=reply.id))
        reply.playout = Playout.CUT
        if not reply.done:
            reply.status = "cancelled"
            reply.reason = reason
            self._tell_done(reply)
        if self._webrtc and item is not None and item.heard is not None and self._knows(item):
            self._outbox.send(ItemTruncated(item_id=item.id, audio_end=item.heard, heard=words))
        whole = spoken is not None and spoken.complete and words == spoken.text
        return CutOff(reply=reply, unheard=not words, short=not whole)

    # Inside. --------------------------------------------------------------------------------------------------------

    def _knows(self, item: Item) -> bool:
        """Whether the client still has an item: it may have deleted it while it was being said."""
        return self._conversation is None or item in self._conversation

    def _playing(self, reply: Reply, begins: RtpTicks | None, now: MonoNs) -> None:
        """The first sound of a reply has left."""
        reply.playout = Playout.PLAYING
        reply.lost_before = self._lane.lost
        self.spoke = True
        reply.mark("sent", now)
        if self._webrtc:
            self._outbox.send(PlayoutStarted(reply_id=reply.id, rtp_start=begins))
        marks = reply.marks
        if "speech_end" not in marks:
            return
        ttfas = seconds_from_ns(MonoNs(now - marks["speech_end"]))
        self._outbox.observe("duplex_ttfas_seconds", ttfas, observed="sent")
        if self._lane.webrtc is not None:
            estimate = self._lane.webrtc.estimate()
            self._outbox.observe("duplex_ttfas_seconds", ttfas + seconds_from_samples(estimate.delay), observed="heard")
            self._outbox.observe("duplex_playback_error_seconds", seconds_from_samples(estimate.error))
        there = max(marks["vocoded"], marks["transcribed"])  # what was made before the turn had ended waited for that
        overhead = now - there + marks["looked"] - marks["look_arrived"]
        self._outbox.observe("duplex_server_overhead_seconds", seconds_from_ns(MonoNs(overhead)))
        self._outbox.send(TurnMetrics(reply_id=reply.id, split=reply.split()))

    def _tell_text(self, reply: Reply) -> None:
        """On WebRTC a clause's text follows its first sound out of the door; text without sound, the reply's last."""
        sent = self._lane.sent(reply)
        all_left = reply.ending is not None and sent >= reply.generated
        while reply.captions and (all_left or reply.captions[0][0] < sent):
            assert reply.item is not None
            text = reply.captions.popleft()[1]
            self._outbox.send(ReplyText(reply_id=reply.id, item_id=reply.item.id, modality="audio", delta=text))

    def _all_told(self, reply: Reply) -> bool:
        """Nothing that belongs before the terminal event is still to come."""
        return not reply.captions if self._webrtc else self._lane.sent(reply) >= reply.generated

    def _end(self, reply: Reply, status: ReplyStatus) -> None:
        if reply.done:
            self._outbox.violated("terminal")
            return
        reply.status = status
        self._close_calls(reply)
        item = reply.item
        if item is not None:
            item.status = "completed" if status == "completed" else "incomplete"
            if item.spoken is not None and not item.spoken.complete and item.heard is None:
                item.heard = reply.generated  # a stage failed inside a clause: its text is longer than its sound
        self._tell_done(reply)
        if not reply.generated:
            reply.playout = Playout.DRAINED
            self._lane.remove(reply)
        self._ended()

    def _close_calls(self, reply: Reply) -> None:
        cut = reply.close_calls()
        for outcome, calls in (("made", len(reply.calls) - cut), ("cut", cut)):
            if calls:
                self._outbox.observe("duplex_function_calls_total", calls, outcome=outcome)

    def _tell_done(self, reply: Reply) -> None:
        self._outbox.observe("duplex_replies_total", 1, status=reply.status)
        self._outbox.send(ReplyDone(reply=reply.view()))
