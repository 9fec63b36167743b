"""The labelled cases: what a microphone hears, what of it is an event, and what has to come of it.

    0 s      0.5        q             q + 2.5 s                             kinds over a reply
    ├─quiet──┼─question─┼──reply begins──┼─event──┼──────── 3 s ─────┤
    ├─quiet──┼─half a sentence─┼─pause─┼─the rest─┼──── 3 s ─────────┤     kinds "pause" and "held-out pause"
    ├─quiet──┼─a short turn─┼──── 3 s ─────────┤                          kind "finished"
    ├─quiet──┼─a sentence───┼──── 3 s ─────────┤                          kind "fluent"

Echo is no part of the recording: the room mixes what the server really sends into the microphone, later and quieter. All levels
are of the whole: the user's voice at −26 dBFS, the room's noise at −60 dBFS unless a case says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import av
import numpy as np
import soxr

from benchmarks.turn_taking.held_out import BROKEN_OFF, COMPLETE, FINISHED, PAUSES_S
from benchmarks.turn_taking.make_sounds import RATE, SOUNDS, Float, band
from duplex.payloads import Int16Array

DATA = Path(__file__).parents[2] / "tests" / "data" / "speech"
VOICE_DB = -26.0
ROOM_DB = -60.0
REPLY_DB = -20.0
"""Level at which replies are sent."""
BEFORE_S = 0.5
REPLY_S = 2.5
"""From the question's end to the event: the reply has been heard for about two seconds."""
AFTER_S = 3.0
REPLY_LENGTH_S = 11.0
"""Time in which any reply is over; echo is listened to for so long."""
CUT, IGNORED, ONE_TURN, ANSWERED = "cut", "ignored", "one turn", "answered"
SENTENCES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Echo:
    """The assistant's own voice in the microphone."""

    db: float
    """Against what was sent."""
    delay_ms: int
    """From sending a packet until it comes back in the microphone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One recording and its labels; times in seconds from its start."""

    name: str
    kind: str
    group: str
    """What of the kind it is: a condition of the figures."""
    expected: str
    """`cut`: the reply ends at once; `ignored`: it goes on; `one turn`: the user is let finish; `answered`: at once."""
    onset_s: float
    """First energy of the event."""
    offset_s: float
    """Last energy of the event."""
    question_end_s: float | None
    """End of the question before; None where there is none."""
    length_s: float
    reply: int
    """Which recording the assistant answers with."""
    echo: Echo | None = None
    sounds: tuple[tuple[str, float, float], ...] = ()
    """What sounds: name, start in seconds, level of its energy in dBFS."""
    noise_db: float = ROOM_DB
    far: bool = False
    """The event is a voice from the next room: dull and with reverberation."""

    def label(self) -> dict[str, object]:
        """Return the labels as they are kept beside the sounds."""
        return asdict(self)

    def microphone(self) -> Int16Array:
        """Return what is heard besides echo: mono, 16 kHz."""
        n = round(self.length_s * RATE)
        mix = np.resize(_noise(), n) * 10 ** (self.noise_db / 20)
        for place, (name, at, level_db) in enumerate(self.sounds):
            far = self.far and place == len(self.sounds) - 1
            pcm = (_from_afar(sound(name)) if far else sound(name) / loudness(name)) * 10 ** (level_db / 20)
            start = round(at * RATE)
            mix[start : start + len(pcm)] += pcm[: max(0, n - start)]
        return np.clip(np.rint(mix * 32768), -32768, 32767).astype(np.int16)


def cases() -> list[Case]:
    """Return all cases, in a fixed order."""
    return [
        *_interruptions(),
        *_backchannels(),
        *_noises(),
        *_echoes(),
        *_double_talk(),
        *_far(),
        *_pauses(),
        *_held_out(),
        *_fluent(),
    ]


def _over_reply(
    number: int, kind: str, group: str, expected: str, event: str | None, db: float = VOICE_DB, *, noise_db: float = ROOM_DB,
    echo: Echo | None = None, far: bool = False,
) -> Case:  # fmt: skip
    question = f"facts/af_sarah-{number % 10:02d}"
    end = BEFORE_S + seconds(question)
    onset = round(end + REPLY_S + 0.02 * (number * 7 % 20), 2)
    offset = onset + (seconds(event) if event is not None else 0)
    length = end + REPLY_LENGTH_S + 1 if event is None else offset + AFTER_S
    said = ((question, BEFORE_S, VOICE_DB),) + (() if event is None else ((event, onset, db),))
    return Case(
        name=f"{kind}-{group}-{number:03d}", kind=kind, group=group, expected=expected, onset_s=onset, offset_s=round(offset, 3),
        question_end_s=round(end, 3), length_s=round(length, 2), reply=number % 4, echo=echo, sounds=said, noise_db=noise_db,
        far=far,
    )  # fmt: skip


def _sentences() -> list[str]:
    facts = [f"facts/{('af_sarah', 'am_michael')[i % 2]}-{i:02d}" for i in range(10)]
    return [*(f"s{i:02d}" for i in range(SENTENCES)), *facts]


def _made(kind: str) -> list[str]:
    return sorted(path.stem for path in SOUNDS.glob(f"{kind}-*.flac"))


def _interruptions() -> Iterator[Case]:
    conditions = (("clean", VOICE_DB, ROOM_DB), ("noise", VOICE_DB, VOICE_DB - 15), ("quiet", VOICE_DB - 10, ROOM_DB))
    for condition, db, noise_db in conditions:
        for number, name in enumerate([*_sentences(), *_made("interruption")]):
            group = ("short " if name.startswith("interruption") else "") + condition
            yield _over_reply(number, "interruption", group, CUT, name, db, noise_db=noise_db)


def _backchannels() -> Iterator[Case]:
    for condition, db in (("clean", VOICE_DB), ("quiet", VOICE_DB - 6)):
        for number, name in enumerate(_made("backchannel")):
            yield _over_reply(number, "backchannel", condition, IGNORED, name, db)


def _noises() -> Iterator[Case]:
    for kind, levels in (("cough", (-26, -16)), ("click", (-30, -20)), ("knocks", (-26,)), ("typing", (-34,))):
        for db in levels:
            for number, name in enumerate(_made(kind)):
                yield _over_reply(number, kind, f"{db} dBFS", IGNORED, name, db)


def _echoes() -> Iterator[Case]:
    for db in (-10, -20, -30):
        for delay_ms in (50, 120, 250):
            for number in range(4):
                echo = Echo(db=db, delay_ms=delay_ms)
                yield _over_reply(number, "echo", f"{db} dB {delay_ms} ms", IGNORED, None, noise_db=-55, echo=echo)


def _double_talk() -> Iterator[Case]:
    """A voice 10 dB over the echo, which is quieter than users usually are."""
    for number, name in enumerate(_sentences()[:SENTENCES]):
        echo = Echo(db=-20, delay_ms=120)
        yield _over_reply(number, "voice over echo", "-20 dB 120 ms", CUT, name, REPLY_DB - 10, noise_db=-55, echo=echo)


def _far() -> Iterator[Case]:
    for number, name in enumerate(_sentences()[:SENTENCES]):
        yield _over_reply(number, "far speaker", "-25 dB", IGNORED, name, VOICE_DB - 25, far=True)


def _pauses() -> Iterator[Case]:
    """A pause after a phrase that is spoken to be gone on with, and in the middle of a sentence that was spoken in one."""
    phrases = [(f"paused-{number}-before", f"paused-{number}-after") for number in range(8)]
    halves = [(f"{name}[:{at}]", f"{name}[{at}:]") for name in _sentences()[:SENTENCES] for at in [_gap_s(name)]]
    for pause_s, kind, parts in (
        (0.3, "phrase", phrases), (0.5, "phrase", phrases), (0.8, "phrase", phrases), (0.5, "sentence", halves),
    ):  # fmt: skip
        for number, (before, after) in enumerate(parts):
            yield _paused(number, "pause", kind, before, pause_s, after)


def _held_out() -> Iterator[Case]:
    """What no list and no threshold was chosen by: pauses in the midst of a phrase, of a sentence spoken in one, and behind what might
    be all; and short turns that are over."""
    broken, complete = (
        [(f"{kind}-{number:02d}-before", f"{kind}-{number:02d}-after") for number in range(len(texts))]
        for kind, texts in (("broken", BROKEN_OFF), ("complete", COMPLETE))
    )
    halves = [(f"{name}[:{at}]", f"{name}[{at}:]") for name in _sentences()[SENTENCES:] for at in [_gap_s(name)]]
    for kind, parts in (("broken off", broken), ("sentence", halves), ("complete", complete)):
        for pause_s in PAUSES_S:
            for number, (before, after) in enumerate(parts):
                yield _paused(number, "held-out pause", kind, before, pause_s, after)
    for number in range(len(FINISHED)):
        yield _alone(number, "finished", "held-out", ANSWERED, f"finished-{number:02d}")


def _fluent() -> Iterator[Case]:
    """What was spoken in one, with no more of a pause than a comma makes: it is one turn."""
    facts = [f"facts/{voice}-{i:02d}" for voice in ("af_sarah", "am_michael") for i in range(10)]
    rests = [f"broken-{i:02d}-after" for i in range(len(BROKEN_OFF))]
    rests += [f"complete-{i:02d}-after" for i in range(len(COMPLETE))]
    sentences = _sentences()[:SENTENCES]
    for group, names in (("sentence", sentences), ("question", facts), ("rest of a sentence", rests)):
        for number, name in enumerate(names):
            yield _alone(number, "fluent", group, ONE_TURN, name)


def _alone(number: int, kind: str, group: str, expected: str, name: str) -> Case:
    end = round(BEFORE_S + seconds(name), 3)
    return Case(
        name=name if kind == "finished" else f"{kind}-{name}", kind=kind, group=group, expected=expected, onset_s=BEFORE_S,
        offset_s=end, question_end_s=None, length_s=round(end + AFTER_S, 2), reply=number % 4,
        sounds=((name, BEFORE_S, VOICE_DB),),
    )  # fmt: skip


def _paused(number: int, kind: str, group: str, before: str, pause_s: float, after: str) -> Case:
    onset = round(BEFORE_S + seconds(before) + pause_s, 3)
    offset = round(onset + seconds(after), 3)
    return Case(
        name=f"{kind}-{group}-{pause_s}-{number}", kind=kind, group=f"{group} {pause_s} s", expected=ONE_TURN, onset_s=onset,
        offset_s=offset, question_end_s=None, length_s=round(offset + AFTER_S, 2), reply=number % 4,
        sounds=((before, BEFORE_S, VOICE_DB), (after, onset, VOICE_DB)),
    )  # fmt: skip


@cache
def sound(name: str) -> Float:
    """Return a sound by its name, from its first energy to its last; mono, 16 kHz, full scale 1. `s03[:1.2]` is a part of one."""
    whole, _, cut = name.partition("[")
    if cut:
        first, last = (float(edge) if edge else None for edge in cut.rstrip("]").split(":"))
        return sound(whole)[round((first or 0) * RATE) : None if last is None else round(last * RATE)]
    path = next(SOUNDS.glob(f"{name}.*"), DATA / f"{name}.flac")
    pcm = read(path)
    block = RATE // 100
    levels = np.abs(pcm[: len(pcm) // block * block].reshape(-1, block)).max(axis=1)
    loud = np.flatnonzero(levels > levels.max() * 10 ** (-35 / 20))
    return pcm[loud[0] * block : (loud[-1] + 1) * block]


def read(path: Path) -> Float:
    """Return a recording as 16 kHz mono."""
    with av.open(str(path)) as container:
        stream = container.streams.audio[0]
        plain = av.AudioResampler(format="s16", layout="mono")
        frames = (frame for each in container.decode(stream) for frame in plain.resample(each))
        pcm = np.concatenate([frame.to_ndarray().reshape(-1) for frame in frames])
        scaled = pcm.astype(np.float64) / 32768
        out: Float = scaled if stream.rate == RATE else soxr.resample(scaled, stream.rate, RATE)
    return out


def seconds(name: str) -> float:
    """Return a sound's length."""
    return len(sound(name)) / RATE


def _gap_s(name: str) -> float:
    """Return where a sentence is quietest near its middle: most often between two words."""
    pcm, hop = sound(name), RATE // 100
    middle, around = len(pcm) // 2 // hop, 30
    power = [(pcm[k * hop : (k + 3) * hop] ** 2).mean() for k in range(middle - around, middle + around)]
    return round((middle - around + int(np.argmin(power)) + 1) * hop / RATE, 2)


@cache
def loudness(name: str) -> float:
    """Return the level (RMS) of a sound's louder half, so that pauses and tails do not count."""
    pcm = sound(name)
    block = RATE // 50
    blocks = np.pad(pcm, (0, -len(pcm) % block)).reshape(-1, block)
    power = np.sort((blocks**2).mean(axis=1))
    return float(np.sqrt(power[len(power) // 2 :].mean()))


@cache
def _noise() -> Float:
    """Return 20 s of a room's noise, level 0 dB, the same for all cases."""
    noise = band(np.random.default_rng(3).standard_normal(20 * RATE), 60, 5000)
    return noise / np.sqrt((noise**2).mean())


def _from_afar(pcm: Float) -> Float:
    """Return a voice as it comes from a distance, at level 0 dB: under 3 kHz, 0.4 s of reverberation."""
    n = int(0.4 * RATE)
    tail = np.random.default_rng(5).standard_normal(n) * np.exp(-np.arange(n) / (0.1 * RATE))
    far = band(np.convolve(pcm, tail), 150, 3000)
    power = np.sort((np.pad(far, (0, -len(far) % 320)).reshape(-1, 320) ** 2).mean(axis=1))
    return far / np.sqrt(power[len(power) // 2 :].mean())
