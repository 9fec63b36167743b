"""What a session hears, on its way to the core: cleaned, kept, analysed in VAD windows or given to a model in lock-step.

input ─► processing ─► ring ─┬► windows, `_WINDOWS_IN_FLIGHT` at once ─► VAD ─► echo gate ─► voice's end ─► Heard
appended audio waits before  └► ticks, `_TICKS_IN_FLIGHT` at once ─► the model
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from duplex.actor.context import ActorContext
from duplex.actor.ingress import WINDOW, Ingress
from duplex.media.contract import INPUT_RATE, WEBSOCKET_RATE
from duplex.media.echo_gate import HISTORY, EchoGate, reference_ms
from duplex.media.polyphase import Upsampler
from duplex.media.processing import AudioProcessor, Processing
from duplex.media.reference import Reference
from duplex.media.resample import StreamResampler
from duplex.media.voice_end import VoiceEnd
from duplex.payloads import (
    INPUT_LANE,
    Address,
    Int16Array,
    Job,
    JobId,
    Pace,
    Payload,
    StageError,
    TickInput,
    VoiceProbability,
    VoiceWindow,
)
from duplex.session.config import SessionConfig
from duplex.session.messages import Heard
from duplex.session.traits import Traits
from duplex.stages.contract import Role
from duplex.units import POSITION_RATE, MonoNs, Samples, Span, samples_from_ms

_SILENCE_TOLD_EVERY = samples_from_ms(256)
"""Silence that nobody waits for is told to the core in spans of this length."""
_TICKS_IN_FLIGHT = 8
_NOTHING = np.zeros(0, np.int16)
_WINDOWS_IN_FLIGHT = 32
"""VAD windows submitted at once; more audio waits in the backlog."""
_LOST = ("failed", "timeout", "memory")
"""How a stage ends a window that it did not look at because it broke."""


class _Appended:
    """Makes appended audio of one rate into input: a whole factor at once, another as soxr gives it.

    Args:
        rate: of what is appended, samples per second.
    """

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self._whole = Upsampler(INPUT_RATE // rate) if INPUT_RATE % rate == 0 else None
        self._stream = StreamResampler(rate, INPUT_RATE)

    def push(self, pcm: Int16Array) -> Int16Array:
        """Return what more audio gives; soxr holds up to 19 ms of it back."""
        return self._stream.push(pcm) if self._whole is None else self._whole.feed(pcm)

    def finish(self) -> Int16Array:
        """Return what was held back; what follows is a stream of its own."""
        if self._whole is not None:
            return _NOTHING
        rest = self._stream.push(_NOTHING, last=True)
        self._stream = StreamResampler(self.rate, INPUT_RATE)
        return rest


@dataclass(slots=True)
class _Silence:
    """Windows in a row that say nothing."""

    start: Samples
    end: Samples = Samples(0)
    arrived: MonoNs = MonoNs(0)
    """When the last packet of its newest window came in."""


class CoreView(Protocol):
    """What of the core is looked at here."""

    @property
    def config(self) -> SessionConfig:
        """The client's choices, as they are at this moment."""

    def ignores(self, probability: float) -> bool:
        """Return whether a VAD window of this probability changes nothing but the time."""

    def listener_delay(self) -> Samples:
        """Return the least time from sending until the listener hears it."""


class Microphone:
    """The input side of one session.

    Args:
        session_id: for addresses.
        context, traits: of the process, and of the session.
        core: is looked at, and given nothing.
        next_job: gives a number that no other job of the process has.
    """

    def __init__(
        self, session_id: str, context: ActorContext, traits: Traits, core: CoreView, next_job: Callable[[], JobId]
    ) -> None:  # fmt: skip
        settings = context.settings
        self._context = context
        self._core = core
        self._next_job = next_job
        self._address = Address(session=session_id, lane=INPUT_LANE, epoch=0, tenant=traits.tenant)
        self._tick = None if context.tick_ms is None else samples_from_ms(context.tick_ms)
        self._ingress = Ingress(settings.turn.input_buffer_ms_max)
        self._webrtc = traits.transport == "webrtc"
        gated = settings.echo.gate and self._webrtc and not traits.tick_mode
        self._reference = Reference(reference_ms(settings.echo))
        self._echo = EchoGate(settings.echo, self._reference) if gated else None
        self._voice_end = VoiceEnd(settings.turn.release_drop_db, settings.turn.release_threshold)
        self._processing = Processing()
        self._processor: AudioProcessor | None = None
        self._resampled = _Appended(WEBSOCKET_RATE)
        self._appended: deque[Int16Array] = deque()
        """Audio appended by the client (16 kHz, slices of at most 1 s) that is not taken in yet."""
        self._appended_samples = 0
        self._backlog: deque[VoiceWindow] = deque()
        self._asked: deque[VoiceWindow] = deque()
        """Windows at the stage, in the order of their audio; they are told to the core in this order."""
        self._known: dict[Samples, tuple[float, MonoNs]] = {}
        """Probability of those whose answer came before that of one ahead of them, by start, and when their audio came in."""
        self._again: set[Samples] = set()
        """Starts of those that were lost with the stage that held them, and asked about once more."""
        self._arrived = MonoNs(0)
        """When the newest input's packet came in, or it was made up for one that never came; grows only, since work is done in its order."""
        self._ticked = Samples(0)
        self._ticks_in_flight = 0
        self._silence: _Silence | None = None
        """What the core has not been told of yet; told before anything else is."""

    # Audio comes. ---------------------------------------------------------------------------------------------------

    def hear(self, pcm: Int16Array, arrived: MonoNs | None = None) -> None:
        """Take the next input audio: shape (n,), mono, 16 kHz; its packet came in at `arrived`."""
        came = self._context.executor.now() if arrived is None else arrived
        self._arrived = max(self._arrived, came)
        windows = self._ingress.push(self._processed(pcm))
        if windows:
            self._backlog.extend(windows)
            self._submit_windows()
        if self._tick is not None:
            self._submit_ticks(self._tick)

    def append(self, pcm: Int16Array, rate: int = WEBSOCKET_RATE) -> None:
        """Take audio that the client appends, shape (n,), `rate` samples a second: as much at once as can be analysed."""
        if rate != self._resampled.rate:  # the session has changed its format
            self._keep(self._resampled.finish())
            self._resampled = _Appended(rate)
        for start in range(0, len(pcm), rate):
            self._keep(self._resampled.push(pcm[start : start + rate]))
        self._take_appended()

    def end_appended(self) -> None:
        """Take in all that was appended: a commit or a clear means every sample before it, and none is left for the next."""
        self._keep(self._resampled.finish())
        self._take_appended()

    def sounded(self, pcm: Int16Array) -> None:
        """Note what was just sent to the listener, shape (960,), 48 kHz: it may come back as an echo."""
        if self._echo is not None or self._processor is not None:
            self._reference.sent(pcm, self._ingress.samples)

    def close(self) -> None:
        """The session has ended: what waits is given up."""
        self._backlog.clear()
        self._appended.clear()
        self._ingress.close()

    # What has come. -------------------------------------------------------------------------------------------------

    @property
    def position(self) -> Samples:
        """Input position up to which audio can be read."""
        return self._ingress.position

    @property
    def arrived(self) -> Samples:
        """Input position up to which the client's audio has come in, taken in or not."""
        return Samples(self._ingress.position + self._appended_samples * (POSITION_RATE // INPUT_RATE))

    @property
    def backlog_ms(self) -> int:
        """Input that has arrived and is not analysed yet."""
        waiting = len(self._backlog) * WINDOW + self._appended_samples
        return waiting * 1000 // INPUT_RATE

    @property
    def lags(self) -> bool:
        """Windows are at the stage, and it has not spoken of them."""
        return bool(self._asked)

    def read(self, span: Span) -> Int16Array:
        """Return the audio of a span, shape (n,), 16 kHz, as far back as it is kept."""
        return self._ingress.read(span)

    # Stage outputs. -------------------------------------------------------------------------------------------------

    def analysed(self, job: Job, window: VoiceWindow, payload: Payload | StageError) -> list[Heard]:
        """Take what the VAD says of a window; return what the core is to be told at once.

        A window that a broken stage lost is asked about again, ahead of what waits behind it; if the next stage loses it too, it
        counts as silence.
        """
        start = window.span.start
        if isinstance(payload, StageError) and payload.kind in _LOST and start not in self._again:
            self._again.add(start)
            self._submit(Role.VAD, window, replace(job.pace, since=MonoNs(job.pace.since - 1)))
            return []
        probability = payload.probability if isinstance(payload, VoiceProbability) else 0.0
        self._known[start] = probability, job.pace.since
        told: list[Heard] = []
        while self._asked and self._asked[0].span.start in self._known:
            first = self._asked.popleft()
            self._again.discard(first.span.start)
            heard = self._heard(first, *self._known.pop(first.span.start))
            if heard is not None:
                told.append(heard)
        return told

    def _heard(self, window: VoiceWindow, probability: float, arrived: MonoNs) -> Heard | None:
        if self._is_echo(window.span, probability):
            probability = 0.0
        probability = self._voice_end.probability(window.pcm, probability)
        if not self._core.ignores(probability):
            return Heard(span=window.span, probability=probability, arrived=arrived)
        if self._silence is None:
            self._silence = _Silence(window.span.start)
        self._silence.end, self._silence.arrived = window.span.end, arrived
        return None if window.span.end - self._silence.start < _SILENCE_TOLD_EVERY else self.take_silence()

    def take_silence(self) -> Heard | None:
        """Return the silence that the core has not been told of, once."""
        silence, self._silence = self._silence, None
        if silence is None:
            return None
        return Heard(span=Span(silence.start, silence.end), probability=0.0, arrived=silence.arrived)

    def ticked(self) -> None:
        """A tick has been computed."""
        self._ticks_in_flight -= 1

    def go_on(self) -> None:
        """There may be room at the stage again: submit what waits."""
        if self._backlog:
            self._submit_windows()
        self._take_appended()

    # Inside. --------------------------------------------------------------------------------------------------------

    def _processed(self, pcm: Int16Array) -> Int16Array:
        """Have echo and noise taken out, as the session wants it at this moment."""
        make = self._context.processing
        if make is None:
            return pcm
        config = self._core.config
        wanted = Processing(echo=config.echo_cancellation and self._webrtc, noise=config.noise_reduction)
        if wanted != self._processing:
            self._processing = wanted
            off = wanted == Processing()
            self._processor = None if off else AudioProcessor(
                make(wanted), self._reference, self._core.listener_delay, self._ingress.samples
            )  # fmt: skip
        return pcm if self._processor is None else self._processor.push(pcm)

    def _keep(self, piece: Int16Array) -> None:
        if len(piece):
            self._appended.append(piece)
            self._appended_samples += len(piece)

    def _take_appended(self) -> None:
        """Take in appended audio slice by slice, as fast as it is analysed."""
        while self._appended and len(self._backlog) < _WINDOWS_IN_FLIGHT and self._ticks_in_flight < _TICKS_IN_FLIGHT:
            piece = self._appended.popleft()
            self._appended_samples -= len(piece)
            self.hear(piece)

    def _submit_windows(self) -> None:
        pace = Pace(since=self._arrived)
        while self._backlog and len(self._asked) < _WINDOWS_IN_FLIGHT:
            window = self._backlog.popleft()
            self._asked.append(window)
            self._submit(Role.VAD, window, pace)

    def _submit_ticks(self, tick: Samples) -> None:
        """Give a model in lock-step its input; it hears all of it, whatever was cut meanwhile."""
        while self._ingress.position - self._ticked >= tick:
            span = Span(self._ticked, Samples(self._ticked + tick))
            self._ticked = span.end
            self._ticks_in_flight += 1
            payload = TickInput(span=span, pcm=self._ingress.read(span))
            self._submit(Role.TICK, payload, Pace(since=self._context.executor.now()))

    def _submit(self, role: Role, payload: VoiceWindow | TickInput, pace: Pace) -> None:
        job = Job(id=self._next_job(), stage=role, address=self._address, payload=payload, pace=pace)
        self._context.runners.submit(job)

    def _is_echo(self, span: Span, probability: float) -> bool:
        """Return whether a voice in a VAD window is what we sent ourselves."""
        if self._echo is None or probability < self._context.settings.turn.release_threshold:
            return False
        end = span.end * INPUT_RATE // POSITION_RATE
        if not self._echo.listens(end):
            return False
        return self._echo.is_echo(self._ingress.before(end, HISTORY), end)
