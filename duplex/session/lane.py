"""An output lane: its epoch, its replies in order, and where the listener is in them.

Two tables, two states: a reply is accepted, in_progress and then completed, cancelled, failed or incomplete; its playout
is queued, playing and then drained or cut. A cut after the reply was done cuts what is unplayed and nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from duplex.config import PacingSettings
from duplex.pacing.lead import JitterMeter, lead_target
from duplex.payloads import CONVERSATION_LANE, Address, JobId, Toolset
from duplex.session.config import Greeting
from duplex.session.conversation import Item, SpokenText
from duplex.session.events import ReplyStatus, ReplyView, StatusReason
from duplex.timeline.ledger import EgressLedger, SentRange
from duplex.timeline.playback import WallClockPlayer, WebRtcDelay
from duplex.units import MonoNs, Samples, ns_from_samples, samples_from_ms, samples_from_ns, seconds_from_ns

_KEEP = samples_from_ms(10_000)
"""Output the ledger keeps behind the newest packet: longer than any client's buffer we estimate."""
_ODD = 1
"""A 48 kHz stream of an odd length has one sample more than its content."""
_LOST_PACKET = samples_from_ms(20)
_PARTS = (
    ("endpointing", "committed"), ("transcribe", "transcribed"), ("think", "thought"), ("talk", "talked"),
    ("vocode", "vocoded"), ("send", "sent"),
)  # fmt: skip
"""Parts of a turn's time to first sound, and the milestone that ends each."""
TERMINAL: frozenset[ReplyStatus] = frozenset({"completed", "cancelled", "failed", "incomplete"})


class Playout(Enum):
    """What the listener's side of a reply is doing."""

    QUEUED = "queued"
    PLAYING = "playing"
    DRAINED = "drained"
    CUT = "cut"


@dataclass(slots=True)
class Reply:
    """One reply: its contract, its state, and when its milestones were reached."""

    id: str
    address: Address
    modality: Literal["audio", "text"]
    voice: str
    speed: float
    tokens_max: int | None
    metadata: dict[str, str] | None
    instructions: str
    since: MonoNs
    """When the wait for it began: the end of the user's turn, else its creation."""
    speculative: bool = False
    """Begun before the turn has ended: nobody has been told of it, and it may be thrown away."""
    toolset: Toolset = Toolset()
    """What it may call."""
    item: Item | None = None
    """Of what it says."""
    outputs: list[Item] = field(default_factory=list)
    """`item` and function calls, as they began."""
    status: ReplyStatus = "accepted"
    reason: StatusReason | None = None
    error: str | None = None
    ending: ReplyStatus | None = None
    """How it will end once its last audio has left (WebSocket)."""
    playout: Playout = Playout.QUEUED
    generated: Samples = Samples(0)
    captions: deque[tuple[Samples, str]] = field(default_factory=deque)
    """Text that waits for its sound to leave (WebRTC): content position of its start, and the text."""
    text_chars: int = 0
    """Characters that the thinker has made."""
    reported: tuple[Samples, MonoNs] | None = None
    """Playback front by the client SDK's own word, and when it came."""
    text_tokens: int = 0
    input_tokens: int = 0
    input_estimated: bool = False
    cached_tokens: int = 0
    input_audio: Samples = Samples(0)
    """As in `ReplyView`, all four."""
    input: tuple[Item, ...] | None = None
    """What it is made from in place of the conversation."""
    lost_before: int = 0
    """Packets reported lost before it began to play."""
    think_job: JobId | None = None
    greeting: Greeting | None = None
    """It speaks unasked, and says this."""
    results: int | None = None
    """How many results of function calls it knows, in the count of the conversation; None: it has not begun."""
    takes_up: bool = False
    """It goes on where a sound without words has cut the one before it."""
    marks: dict[str, MonoNs] = field(default_factory=dict)
    """Milestones of its turn: speech_end, committed, transcribed, thought, talked, vocoded, sent."""

    @property
    def done(self) -> bool:
        """The terminal event was sent."""
        return self.status in TERMINAL

    @property
    def calls(self) -> list[Item]:
        """Its function calls, complete or not."""
        return [item for item in self.outputs if item.kind == "function_call"]

    @property
    def called(self) -> bool:
        """A call was given to the client, who will tell what it gave."""
        return any(call.status == "completed" for call in self.calls)

    def close_calls(self) -> int:
        """The reply ends: what is not complete of its calls will not be; return how many that are."""
        open_calls = [call for call in self.calls if call.status == "in_progress"]
        for call in open_calls:
            call.status = "incomplete"
        return len(open_calls)

    def open(self, item_id: str) -> Item:
        """Give the reply its item, of this id: output begins."""
        spoken = SpokenText() if self.modality == "audio" else None
        self.item = Item(
            id=item_id, role="assistant", modality=self.modality, text=None, status="in_progress", spoken=spoken
        )
        self.outputs.append(self.item)
        return self.item

    def mark(self, milestone: str, now: MonoNs) -> None:
        """Note when a milestone was first reached."""
        self.marks.setdefault(milestone, now)

    def split(self) -> dict[str, float]:
        """Return the parts of the time from `speech_end` to `sent`, and their sum `ttfas`, in seconds.

        What was done before the turn was committed took none of the listener's time after it: its part is 0.
        """
        split: dict[str, float] = {}
        begin = before = self.marks["speech_end"]
        for name, mark in _PARTS:
            at = max(self.marks.get(mark, before), before)
            split[name] = seconds_from_ns(MonoNs(at - before))
            before = at
        split["ttfas"] = seconds_from_ns(MonoNs(before - begin))
        return split

    def view(self) -> ReplyView:
        """Return a snapshot for the client."""
        return ReplyView(
            id=self.id,
            item=self.item.view() if self.item is not None else None,
            status=self.status,
            reason=self.reason,
            error=self.error,
            modality=self.modality,
            voice=self.voice,
            tokens_max=self.tokens_max,
            metadata=self.metadata,
            input_tokens=self.input_tokens,
            input_estimated=self.input_estimated,
            cached_tokens=self.cached_tokens,
            input_audio=self.input_audio,
            output_text_tokens=self.text_tokens,
            output_audio=self.generated,
            calls=tuple(call.view() for call in self.calls),
            calls_before=0 if self.item is None else self.outputs.index(self.item),
            out_of_band=self.address.lane != CONVERSATION_LANE,
        )


class Lane:
    """The conversation's output.

    Args:
        number: as in `Address.lane`.
        webrtc: the way to the listener when audio leaves at real time; None on WebSocket, whose client plays by itself.
        pacing: what the lead target is made of.
    """

    def __init__(self, number: int, webrtc: WebRtcDelay | None, pacing: PacingSettings) -> None:
        self.number = number
        self.epoch = 0
        self.webrtc = webrtc
        self.lead_ms: int | None = None
        """WebSocket: how far audio may run ahead of the client's player; None: freely."""
        self.stage_jitter = JitterMeter(pacing.stage_jitter_ms)
        """Time from when a step was due until its audio was there."""
        self._pacing = pacing
        self.lost = 0
        """Packets of ours reported lost so far."""
        self._player = WallClockPlayer()
        self._ledger = EgressLedger(_KEEP)
        self._replies: list[Reply] = []
        self._reported_at = MonoNs(0)

    # Replies. -------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Reply]:
        return iter(self._replies)

    def add(self, reply: Reply) -> None:
        """Append a reply; it queues behind the tail of those before it."""
        self._replies.append(reply)

    def remove(self, reply: Reply) -> None:
        """Forget a reply that is done and drained or cut."""
        self._replies.remove(reply)
        self._ledger.forget(reply.id)

    def find(self, reply_id: str) -> Reply | None:
        """Return a live reply by its id."""
        return next((reply for reply in self._replies if reply.id == reply_id), None)

    @property
    def active(self) -> Reply | None:
        """The reply whose terminal event is still to come."""
        return next((reply for reply in self._replies if not reply.done), None)

    @property
    def alive(self) -> bool:
        """Something is being made or played."""
        return bool(self._replies)

    # Fronts. --------------------------------------------------------------------------------------------------------

    def sent_ranges(self, ranges: tuple[SentRange, ...], now: MonoNs) -> bool:
        """Output has left; return whether generated ≥ sent ≥ played holds for every reply."""
        self._reported_at = now
        for sent in ranges:
            self._ledger.append(sent)
        if self.webrtc is None:
            self._player.sent(self._ledger.sent_out, now)
        return all(
            self._ledger.played(reply.id) <= self._ledger.sent(reply.id) <= reply.generated + _ODD
            for reply in self._replies
        )

    def advance(self, now: MonoNs) -> None:
        """Move the playback front to where the listener is estimated to be."""
        if self.webrtc is None:
            self._ledger.advance_played(self._player.position(now))
        else:
            since_report = samples_from_ns(now - self._reported_at)
            self._ledger.advance_played(self._ledger.sent_out - self.webrtc.estimate().delay + since_report)

    def sent(self, reply: Reply) -> Samples:
        """Return the sent front (the last sample of an odd length does not count)."""
        return min(self._ledger.sent(reply.id), reply.generated)

    def played(self, reply: Reply) -> Samples:
        """Return the playback front."""
        return min(self._ledger.played(reply.id), reply.generated)

    def report_played(self, reply: Reply, played: Samples, now: MonoNs) -> Samples:
        """Take the client SDK's word for a reply's front; return by how much our estimate was wrong."""
        reply.reported = played, now
        estimate = self._ledger.played(reply.id)
        self._ledger.set_played(reply.id, played)
        return Samples(abs(played - estimate))

    def heard_at_cut(self, reply: Reply, now: MonoNs) -> Samples:
        """Return what the listener hears of a reply whose output has just been cut.

        On WebRTC packets on their way and in the client's jitter buffer cannot be called back: all that was sent, less what was
        lost, unless the SDK reports that its playback is further behind than that. On WebSocket the client drops what it has
        not played.
        """
        if reply.reported is not None:
            played, at = reply.reported
            still_heard = 0 if self.webrtc is None else self.webrtc.estimate().delay
            return Samples(min(self.sent(reply), played + samples_from_ns(now - at) + still_heard))
        if self.webrtc is None:
            return self.played(reply)
        lost = (self.lost - reply.lost_before) * _LOST_PACKET if reply.playout is Playout.PLAYING else 0
        return Samples(max(self.played(reply), self.sent(reply) - lost))

    def new_way(self) -> None:
        """Another transport leads to the listener: nothing is known of it yet."""
        self.lost = 0
        if self.webrtc is not None:
            self.webrtc = WebRtcDelay(self._pacing.client_buffer_ms, self._pacing.network_jitter_ms)

    def flush_player(self, now: MonoNs) -> None:
        """A cut: a WebSocket client drops what it has not played."""
        if self.webrtc is None:
            self._player.flush(now)
            self._ledger.rewind()

    # Pacing. --------------------------------------------------------------------------------------------------------

    def hold_until(self, dry_at: MonoNs, now: MonoNs, slack: int = 1) -> MonoNs | None:
        """Return when work for audio that runs dry at `dry_at` becomes due; None: at once.

        Args:
            slack: widens the target for stages that work further ahead.
        """
        target = self.target()
        if target is not None:
            return MonoNs(dry_at - ns_from_samples(target * slack))
        over = self.waiting - samples_from_ms(self._pacing.generated_ms_max) // 2
        return MonoNs(now + ns_from_samples(over)) if over > 0 else None

    def target(self) -> Samples | None:
        """Return the lead at which generation pauses; None: it runs ahead as far as the bound on unsent audio lets it."""
        if self.webrtc is not None:
            return lead_target(self._pacing, self.webrtc.way_ms, self.webrtc.jitter_ms, self.stage_jitter.p95_ms)
        return None if self.lead_ms is None else samples_from_ms(self.lead_ms)

    @property
    def waiting(self) -> Samples:
        """Audio made but not sent, over all replies of the lane."""
        waiting = 0
        for reply in self._replies:
            waiting += max(0, reply.generated - self._ledger.sent(reply.id))
        return Samples(waiting)

    def begin_draining(self, now: MonoNs) -> None:
        """Audio was queued: if nothing waited before, it begins to leave now."""
        if not self.waiting:
            self._reported_at = max(self._reported_at, now)

    def dry_at(self, now: MonoNs) -> MonoNs:
        """Return when the listener has nothing left to hear if nothing more is made; past if that is so already."""
        waiting = ns_from_samples(self.waiting)
        if self.webrtc is None:
            return MonoNs(self._player.dry_at(now) + waiting)
        return MonoNs(self._reported_at + waiting + ns_from_samples(self.webrtc.estimate().delay))
