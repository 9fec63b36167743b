"""Turns: when the user has begun, paused and gone on. Counts input media, one VAD window at a time.

    probability  ‥▁▁▁▂▇▇▇▇▇▇▇▇▇▂▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁
                     │onset    │speech_end  │pause  │look 1      │look 2 …      │hold cap
    state        IDLE│OPEN ─────────────────────────────────────────────────────► IDLE

At the pause the models begin to work, at the looks it is decided: their time is hidden in the silence that is waited anyway.

The tracker says what it sees; the core decides what it means (a turn, a backchannel, an interruption).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from duplex.config import TurnSettings
from duplex.session.config import TurnDetection
from duplex.units import Samples, Span, samples_from_ms


class Fact(Enum):
    """What one window showed."""

    ONSET = auto()
    """Voice has lasted long enough to be speech."""
    VOICED = auto()
    """Speech goes on."""
    RESUMED = auto()
    """Speech goes on after a pause."""
    PAUSE = auto()
    """It is quiet: what was said may be transcribed and judged."""
    LOOK = auto()
    """It has been quiet long enough to decide whether the turn has ended."""
    ENDED = auto()
    """The turn has ended by silence."""
    LIMIT = auto()
    """The turn has its greatest length."""


_RESUME_MS = 64
"""Voice that ends a pause: one window may be a click."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The durations in force for one turn detection, in samples."""

    threshold: float
    release: float
    onset: Samples
    pause: Samples
    look: Samples
    look_every: Samples | None
    end: Samples
    turn_max: Samples


def limits_for(detection: TurnDetection | None, settings: TurnSettings) -> Limits:
    """Resolve a session's turn detection against the server's settings; None (push to talk) tracks voice all the same."""
    threshold = settings.voice_threshold
    if detection is not None and detection.threshold is not None:
        threshold = detection.threshold
    if detection is not None and detection.kind == "server_vad":
        look = min(settings.first_look_ms, detection.silence_ms)
        end, every = detection.silence_ms, None
    else:
        eagerness = detection.eagerness if detection is not None else "auto"
        holds = {"low": settings.hold_ms_low, "high": settings.hold_ms_high}
        look = settings.first_look_ms_low if eagerness == "low" else settings.first_look_ms
        every = samples_from_ms(settings.look_every_ms)
        end = holds.get(eagerness, settings.hold_ms_medium)
    return Limits(
        threshold=threshold,
        release=min(settings.release_threshold, threshold),
        onset=samples_from_ms(settings.onset_ms),
        pause=samples_from_ms(min(settings.pause_ms, look)),
        look=samples_from_ms(look),
        look_every=every,
        end=samples_from_ms(end),
        turn_max=samples_from_ms(settings.turn_ms_max),
    )


class TurnTracker:
    """Follows one input track."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.open = False
        """An onset was seen, and no end yet."""
        self.onset = Samples(0)
        """Where the voice of the open turn began."""
        self.voiced = 0
        """Voiced samples of the open turn, or of the run that may become one."""
        self.speech_end = Samples(0)
        """End of the last voiced window."""
        self.paused = False
        """Speech has stopped for the length of a pause, and not gone on."""
        self.looks = 0
        """Looks since speech last went on."""
        self._silence = 0
        self._returning = 0
        self._is_voice = False

    def window(self, span: Span, probability: float) -> Fact | None:
        """Take the next window; return what it shows, if anything."""
        if probability >= self.limits.threshold:
            self._is_voice = True
        elif probability < self.limits.release:
            self._is_voice = False
        if not self.open:
            return self._idle(span) if self._is_voice or self.voiced else None
        if span.end - self.onset >= self.limits.turn_max:
            return Fact.LIMIT
        return self._voice(span) if self._is_voice else self._quiet(span)

    def close(self) -> None:
        """The turn is over (committed or thrown away): wait for the next onset."""
        self.open = False
        self.voiced = 0
        self.paused = False
        self.looks = 0
        self._silence = 0
        self._returning = 0

    @property
    def sounding(self) -> bool:
        """There is voice at this moment."""
        return self._is_voice and not self.paused

    def go_on(self, at: Samples) -> None:
        """The voice goes on behind a turn that was closed at its greatest length: the next one is open already."""
        self.open = True
        self.onset = self.speech_end = at

    def _idle(self, span: Span) -> Fact | None:
        if not self._is_voice:
            self.voiced = 0
            return None
        if self.voiced == 0:
            self.onset = span.start
        self.voiced += len(span)
        if self.voiced < self.limits.onset:
            return None
        self.open = True
        self.speech_end = span.end
        return Fact.ONSET

    def _voice(self, span: Span) -> Fact | None:
        self._returning += len(span)
        if self.paused and self._returning < samples_from_ms(_RESUME_MS):
            return None
        resumed = self.paused
        self.voiced += self._returning if resumed else len(span)
        self.speech_end = span.end
        self.paused = False
        self.looks = 0
        self._silence = 0
        return Fact.RESUMED if resumed else Fact.VOICED

    def _quiet(self, span: Span) -> Fact | None:
        self._returning = 0
        self._silence = span.end - self.speech_end
        if not self.paused and self._silence >= self.limits.pause:
            self.paused = True
            return Fact.PAUSE
        if self._silence >= self.limits.end:
            return Fact.ENDED
        due = self.limits.look + self.looks * (self.limits.look_every or 0)
        if self._silence >= due and (self.looks == 0 or self.limits.look_every is not None):
            self.looks += 1
            return Fact.LOOK
        return None
