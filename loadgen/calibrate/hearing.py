"""What the ear's models make of real turns: where the VAD sees their end, and how sure of it the end-of-turn model is."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from duplex.config import TurnSettings
from duplex.media.voice_end import VoiceEnd
from duplex.payloads import Job, Role, TurnEnd, VoiceProbability, VoiceWindow
from duplex.session.config import TurnDetection
from duplex.session.turns import TurnTracker, limits_for
from duplex.units import Samples, Span, samples_from_ms
from loadgen.calibrate.material import PER_SAMPLE, Spoken, quantiles, utterance_of
from loadgen.calibrate.stages import Stages
from loadgen.jobs import job
from loadgen.sim.profile import Hearing

_WINDOW = 512
_WINDOW_MS = 32
_PHASES = 4
"""Places of a turn on the VAD's grid that are tried."""
_SURE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What came of all turns, and what it took."""

    hearing: Hearing
    vad_ms: float
    """Median time of one window."""
    turns: int
    paused: int


def listen(stages: Stages, turns: Sequence[Spoken], paused: Sequence[Spoken]) -> Heard:
    """Let VAD and end of turn hear turns.

    Args:
        turns: with silence behind them in which the model is asked for the last time.
        paused: with a pause in their middle.
    """
    tails: list[float] = []
    times: list[float] = []
    asks = asks_ms(TurnSettings())
    unsure = [0] * len(asks)
    for number, turn in enumerate(turns):
        ends = [_speech_end(stages, turn, phase, f"turn{number}-{phase}", times) for phase in range(_PHASES)]
        tails.append(statistics.fmean(end - turn.end for end in ends) / samples_from_ms(1))
        asked = [_probability(stages, turn, Samples(ends[0] + samples_from_ms(ms))) for ms in asks]
        for number_asked in range(len(asks)):
            unsure[number_asked] += max(asked[: number_asked + 1]) < _SURE
    hasty = 0
    for turn in paused:
        assert turn.pause is not None
        hasty += _probability(stages, turn, Samples(turn.pause + samples_from_ms(asks[0]))) >= _SURE
    return Heard(
        hearing=Hearing(
            tail_ms=quantiles(tails),
            unsure=tuple(round(count / len(turns), 3) for count in unsure),
            hasty=round(hasty / len(paused), 3) if paused else 0.0,
        ),
        vad_ms=statistics.median(times),
        turns=len(turns),
        paused=len(paused),
    )


def asks_ms(settings: TurnSettings) -> tuple[int, ...]:
    """Return the silences behind speech at which the end-of-turn model is asked, on the VAD's grid: at the pause, and at the
    looks that follow one at which it was unsure."""
    later = [settings.first_look_ms + look * settings.look_every_ms for look in (1, 2)]
    return tuple(-(-ms // _WINDOW_MS) * _WINDOW_MS for ms in (settings.pause_ms, *later))


def _speech_end(stages: Stages, turn: Spoken, phase: int, session: str, times: list[float]) -> Samples:
    """Return where the production tracker sees the turn's end, as a position in its audio."""
    shift = phase * _WINDOW // _PHASES
    pcm = np.concatenate([np.zeros(shift, np.int16), turn.pcm])
    settings = TurnSettings()
    tracker = TurnTracker(limits_for(TurnDetection(), settings))
    voice_end = VoiceEnd(settings.release_drop_db, settings.release_threshold)
    for start in range(0, len(pcm) - _WINDOW + 1, _WINDOW):
        span = Span(Samples(start * PER_SAMPLE), Samples((start + _WINDOW) * PER_SAMPLE))
        window = pcm[start : start + _WINDOW]
        (heard,), took = stages.step(Role.VAD, [job(VoiceWindow(span=span, pcm=window), session=session)])
        assert isinstance(heard, VoiceProbability)
        tracker.window(span, voice_end.probability(window, heard.probability))
        times.append(took.ms)
    stages.batch[Role.VAD].release(session)
    return Samples(tracker.speech_end - shift * PER_SAMPLE)


def _probability(stages: Stages, turn: Spoken, until: Samples) -> float:
    (verdict,), _ = stages.step(Role.END_OF_TURN, [_asked(turn, until)])
    assert isinstance(verdict, TurnEnd)
    return verdict.probability


def _asked(turn: Spoken, until: Samples) -> Job:
    return job(utterance_of(turn.pcm[: until // PER_SAMPLE]), role=Role.END_OF_TURN)
