"""The egress queue: a lane's audio on its last metres, cut, ducked or held within one packet.

Pure: it holds PCM and positions and is told to `pop`; the ticker decides when. Its bound is the stages' own pacing (the
core submits no vocoder work past the lead target), checked again here in media milliseconds; overflow rule: `reject`.

    cut:   ███████▇▆▅▃▂▁·········   one fade, then silence; nothing older than the new epoch follows
    duck:  ███████▅▃▃▃▃▃▃▅███████   down and up again within one packet
    hold:  ███████▅▁··········▁▅█   withheld from the first unsent sample, resumed at a word's start
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from duplex.media.resample import StreamResampler
from duplex.payloads import Address, Audio, Float32Array, Int16Array
from duplex.stages.lanes import Gate, Lanes
from duplex.timeline.ledger import Kind, SentRange
from duplex.units import POSITION_RATE, Samples, samples_from_ms

_HISTORY_MS = 1500
"""Sent audio kept for a resume at a word's start."""
_EDGE_MS = 5
"""Fade at the edge of an underrun and at a resume."""


@dataclass(slots=True)
class _Segment:
    address: Address
    content: int
    """Content position of pcm[0], at the queue's rate."""
    pcm: Int16Array


@dataclass(slots=True)
class _Range:
    """What becomes a `SentRange`, as it grows."""

    kind: Kind
    length: int
    reply: str | None
    content_start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Popped:
    """What leaves next."""

    pcm: Int16Array
    """Mono, at the queue's rate."""
    epoch: int
    reply: str | None
    """The reply it belongs to; None for silence and fades."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressReport:
    """What left since the last report; becomes a `Sent` message."""

    ranges: tuple[SentRange, ...]
    underruns: int
    underrun: Samples


class EgressQueue:
    """Audio of one lane, ready to leave.

    Args:
        session, lane: whose.
        rate: output rate, 48 kHz for WebRTC, 24 kHz for WebSocket; must divide 48 kHz.
        lanes: epochs to check against, when audio is queued and again when it leaves.
        queue_ms_max: bound on waiting audio; past it `enqueue` refuses.
        start_delay_ms: silence before a reply that begins from nothing; for a model in lock-step, whose audio comes
            just in time and would run dry at every jitter.
        one_reply: what is popped at once is of one reply (WebSocket deltas name theirs).
    """

    def __init__(
        self, session: str, lane: int, rate: int, lanes: Lanes, queue_ms_max: int, start_delay_ms: int = 0, one_reply: bool = False,
    ) -> None:  # fmt: skip
        self.rate = rate
        self.enqueue_gate = Gate("egress.enqueue", lanes)
        self.send_gate = Gate("egress.send", lanes)
        self._scale = POSITION_RATE // rate
        self._max = samples_from_ms(queue_ms_max) // self._scale
        self._history_max = samples_from_ms(_HISTORY_MS) // self._scale
        self._edge = samples_from_ms(_EDGE_MS) // self._scale
        self._start_delay = samples_from_ms(start_delay_ms) // self._scale
        self._delay = 0
        self._lanes = lanes
        self._one_reply = one_reply
        self._silent = Address(session=session, lane=lane, epoch=0)
        self._segments: deque[_Segment] = deque()
        self._waiting = 0
        self._history: deque[_Segment] = deque()
        self._history_length = 0
        self._open: Address | None = None
        """The reply whose audio is not complete yet."""
        self._queued: dict[str, int] = {}
        self._resampler: StreamResampler | None = None
        self._gain = 1.0
        self._gain_target = 1.0
        self._held = False
        self._rise = 0
        """Samples over which the next audio fades in."""
        self._sounding = False
        """The last packet ended in content."""
        self._ranges: list[_Range] = []
        self.unreported = 0
        """Output (48 kHz samples) that left since the last report."""
        self._gap: int | None = None
        """Silence since the open reply ran dry; an underrun once more of the reply follows, else its end."""
        self._underruns = 0
        self._underrun = 0

    # What the session does to it. -----------------------------------------------------------------------------------

    def enqueue(self, address: Address, audio: Audio | None, last: bool) -> bool:
        """Append speech of a reply.

        Args:
            address: the reply; work older than its lane's epoch is turned away.
            audio: more of it, in order; None when only the end is to be told.
            last: the reply's audio is complete.
        Returns:
            False if it was stale or the bound is reached; nothing is changed then.
        """
        if not self.enqueue_gate.admits(address) or self._waiting > self._max:
            return False
        assert address.reply is not None
        if audio is not None and (self._resampler is None or self._open is None or self._open.reply != address.reply):
            self._resampler = StreamResampler(audio.rate, self.rate)
        pcm = audio.pcm if audio is not None else np.zeros(0, np.int16)
        if self._resampler is not None:
            pcm = self._resampler.push(pcm, last=last)
        self._open = None if last else address
        if last:
            self._resampler = None
        if audio is not None:
            self._end_gap()
        if len(pcm):
            if not self._segments and not self._sounding and address.reply not in self._queued:
                self._delay = self._start_delay
            content = self._queued.get(address.reply, 0)
            self._segments.append(_Segment(address, content, pcm))
            self._queued[address.reply] = content + len(pcm)
            self._waiting += len(pcm)
        if last:
            self._queued.pop(address.reply, None)
            self._gap = None
        return True

    def cut(self, epoch: int, fade_ms: int) -> None:
        """Drop all audio older than `epoch` but for one fade, which belongs to the new epoch."""
        fade = samples_from_ms(fade_ms) // self._scale
        tail = self._peek(fade) if self._sounding and not self._held else np.zeros(0, np.int16)
        self._segments.clear()
        self._waiting = 0
        self._history.clear()
        self._history_length = 0
        self._open = None
        self._gap = None
        self._queued.clear()
        self._resampler = None
        self._held = False
        if len(tail):
            ramp = np.linspace(self._gain, 0.0, len(tail), dtype=np.float32)
            silent = Address(session=self._silent.session, lane=self._silent.lane, epoch=epoch)
            self._segments.append(_Segment(silent, 0, _scaled(tail, ramp)))
            self._waiting = len(tail)
        self._gain = self._gain_target = 1.0

    def duck(self, gain_db: float) -> None:
        """Lower (or, with 0, restore) the level within the next packet."""
        self._gain_target = float(10 ** (-gain_db / 20))

    def hold(self) -> None:
        """Withhold audio from the first unsent sample; what leaves meanwhile is silence."""
        self._held = True

    def release(self, reply: str | None, content: Samples) -> None:
        """End a hold; go on with `reply` from a content position at or before the first unsent sample.

        Without a hold nothing happens; None, or a reply that was not the one being sent, goes on where it stopped.
        """
        if not self._held:
            return
        self._held = False
        self._rise = self._edge
        start = content // self._scale
        while self._history and self._history[-1].address.reply == reply:
            segment = self._history.pop()
            self._history_length -= len(segment.pcm)
            if segment.content + len(segment.pcm) <= start:
                break
            skip = max(0, start - segment.content)
            self._segments.appendleft(_Segment(segment.address, segment.content + skip, segment.pcm[skip:]))
            self._waiting += len(segment.pcm) - skip

    # What the transport asks of it. ---------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Nothing is queued and no reply is open: `pop` would return None."""
        return not self._segments and self._open is None and not self._held

    @property
    def waiting(self) -> Samples:
        """Audio that is ready to leave, as a length at 48 kHz."""
        return Samples(self._waiting * self._scale)

    def pop(self, n: int) -> Popped | None:
        """Take the next n samples; None when there is nothing to say.

        Inside a reply that runs dry, and during a hold, silence is returned, so that the media clock goes on.
        """
        if self._held:
            return self._withheld(n)
        self._drop_stale()
        if not self._segments:
            if self._open is None:
                self._sounding = False
                return None
            return self._starved(n)
        if self._delay > 0:
            self._delay -= n
            return None
        first = self._segments[0].address
        pcm = self._take(n)
        if self._rise or self._gain != self._gain_target or self._gain != 1.0:
            pcm = self._levelled(pcm)
        short = n - len(pcm)
        self._sounding = first.reply is not None and not short
        if short:
            pcm = self._padded(pcm, n)
        return Popped(pcm=pcm, epoch=first.epoch, reply=first.reply)

    def report(self) -> EgressReport | None:
        """Return what left since the last report, or None if nothing did."""
        if not self._ranges and not self._underruns:
            return None
        report = EgressReport(
            ranges=tuple(
                SentRange(
                    kind=left.kind,
                    length=Samples(left.length),
                    reply=left.reply,
                    content_start=Samples(left.content_start),
                )
                for left in self._ranges
            ),
            underruns=self._underruns,
            underrun=Samples(self._underrun * self._scale),
        )
        self._ranges = []
        self.unreported = 0
        self._underruns = 0
        self._underrun = 0
        return report

    # Inside. --------------------------------------------------------------------------------------------------------

    def _drop_stale(self) -> None:
        while self._segments and not self.send_gate.admits(self._segments[0].address):
            self._waiting -= len(self._segments.popleft().pcm)
        if self._open is not None and not self.send_gate.admits(self._open):
            self._open = None

    def _peek(self, n: int) -> Int16Array:
        """Return up to n samples from the head, leaving them where they are."""
        pieces: list[Int16Array] = []
        for segment in self._segments:
            pieces.append(segment.pcm[: n - sum(map(len, pieces))])
            if sum(map(len, pieces)) == n:
                break
        return np.concatenate(pieces) if pieces else np.zeros(0, np.int16)

    def _take(self, n: int) -> Int16Array:
        """Take up to n samples of live audio off the queue and note them as sent."""
        pieces: list[Int16Array] = []
        first: str | None = None
        need = n
        while need and self._segments:
            segment = self._segments[0]
            if pieces and not self.send_gate.admits(segment.address):
                break
            if pieces and self._one_reply and segment.address.reply != first:
                break
            first = segment.address.reply
            piece = segment.pcm[:need]
            need -= len(piece)
            pieces.append(piece)
            reply = segment.address.reply
            self._note(Kind.FADE if reply is None else Kind.CONTENT, len(piece), reply, segment.content)
            if reply is not None:
                self._remember(_Segment(segment.address, segment.content, piece))
            if len(piece) == len(segment.pcm):
                self._segments.popleft()
            else:
                segment.pcm = segment.pcm[len(piece) :]
                segment.content += len(piece)
        taken = n - need
        self._waiting -= taken
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces) if pieces else np.zeros(0, np.int16)

    def _remember(self, segment: _Segment) -> None:
        self._history.append(segment)
        self._history_length += len(segment.pcm)
        while self._history_length > self._history_max:
            self._history_length -= len(self._history.popleft().pcm)

    def _note(self, kind: Kind, length: int, reply: str | None = None, content: int = 0) -> None:
        start, size = content * self._scale, length * self._scale
        self.unreported += size
        last = self._ranges[-1] if self._ranges else None
        if last is not None and last.kind is kind and last.reply == reply:
            if kind is not Kind.CONTENT or last.content_start + last.length == start:
                last.length += size
                return
        self._ranges.append(_Range(kind, size, reply, start))

    def _levelled(self, pcm: Int16Array) -> Int16Array:
        ramp = np.linspace(self._gain, self._gain_target, len(pcm), dtype=np.float32)
        self._gain = self._gain_target
        if self._rise:
            rise = min(self._rise, len(pcm))
            ramp[:rise] *= np.linspace(0.0, 1.0, rise, dtype=np.float32)
            self._rise = 0
        return _scaled(pcm, ramp)

    def _padded(self, pcm: Int16Array, n: int) -> Int16Array:
        """Fill a short packet with silence; soften the edge if the reply was not at its end."""
        if self._open is not None:
            edge = min(self._edge, len(pcm))
            ramp = np.ones(len(pcm), np.float32)
            ramp[len(pcm) - edge :] = np.linspace(1.0, 0.0, edge, dtype=np.float32)
            pcm = _scaled(pcm, ramp)
            self._begin_gap(n - len(pcm))
        self._note(Kind.SILENCE, n - len(pcm))
        out = np.zeros(n, np.int16)
        out[: len(pcm)] = pcm
        return out

    def _begin_gap(self, length: int) -> None:
        self._gap = length
        self._rise = self._edge

    def _end_gap(self) -> None:
        if self._gap is not None:
            self._underruns += 1
            self._underrun += self._gap
            self._gap = None

    def _starved(self, n: int) -> Popped:
        assert self._open is not None
        if self._gap is not None:
            self._gap += n
        elif self._sounding:
            self._begin_gap(n)
        self._sounding = False
        self._note(Kind.SILENCE, n)
        return Popped(pcm=np.zeros(n, np.int16), epoch=self._open.epoch, reply=None)

    def _withheld(self, n: int) -> Popped | None:
        """Silence during a hold; the first packet of it fades out audio that stays queued."""
        out = np.zeros(n, np.int16)
        if self._sounding and self._segments:
            head = self._segments[0].pcm[: self._edge]
            out[: len(head)] = _scaled(head, np.linspace(self._gain, 0.0, len(head), dtype=np.float32))
        self._sounding = False
        self._note(Kind.SILENCE, n)
        return Popped(pcm=out, epoch=self._lanes.epoch(self._silent.session, self._silent.lane), reply=None)


def _scaled(pcm: Int16Array, ramp: Float32Array) -> Int16Array:
    return np.asarray(np.rint(pcm.astype(np.float32) * ramp), dtype=np.int16)
