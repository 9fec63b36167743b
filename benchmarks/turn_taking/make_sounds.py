"""Make the committed sounds of `sounds/`: `python -m benchmarks.turn_taking.make_sounds`; with `--held-out`, those alone.

Short answers, short interruptions and the assistant's replies are said by the voice of the pack `local`; the voice draws at random,
so a second run gives other recordings of the same words. Other speakers are made of it by changing its speed and pitch. Coughs,
clicks, knocks and typing are made of shaped noise with a fixed seed. Whole sentences come from tests/data/speech as they are.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import av
import numpy as np
import soxr
from duplex_models.local.options import LocalOptions
from duplex_models.local.talk import Talk
from duplex_models.local.vocode import Vocode
from duplex_models.local.voice import Voice
from numpy.typing import NDArray

from benchmarks.turn_taking.held_out import BROKEN_OFF, COMPLETE, FINISHED
from duplex.payloads import Audio, Clause, Int16Array, LatentChunk, Latents
from loadgen.jobs import job

RATE = 16_000
SOUNDS = Path(__file__).parent / "sounds"
BACKCHANNELS = ("Mm hmm.", "Uh huh.", "Yeah.", "Okay.", "Right.", "Sure.", "I see.", "Got it.", "Oh.", "Yes.")
INTERRUPTIONS = ("Stop.", "Wait.", "Hold on.", "No, no.", "Excuse me.", "Actually, no.")
REPLIES = (
    "The museum opens at nine in the morning and closes at half past five, and on Sundays it stays open until seven, "
    "so you have more than enough time to see both of the new halls.",
    "To make a good cup of tea you boil fresh water, warm the pot, put in one spoon of leaves for each cup, "
    "pour the water over them, and wait for about four minutes before you drink it.",
    "A computer program is a list of small steps that a machine follows one after the other, "
    "without ever getting tired of them, and exactly in the order in which somebody wrote them down.",
    "The train from London to Edinburgh takes a little more than four hours, and if you sit on the right side "
    "you can look at the sea for a good part of the way up to the north.",
)
PAUSED = (
    ("I would like to book a table,", "for two people on Friday evening."),
    ("Could you tell me,", "how far it is to the station?"),
    ("On Monday morning,", "please remind me to call my sister."),
    ("If it rains tomorrow,", "what should we do with the children?"),
    ("My name is John,", "and I have a question about my order."),
    ("I wanted to ask,", "whether the museum is open today."),
    ("First turn off the lights,", "and then close the door."),
    ("Can you send the letter to,", "my brother in Edinburgh?"),
)
"""What comes before a pause, and what comes after it."""
SPEAKERS = {"a": (1.0, 1.0), "b": (1.15, 1.16), "c": (0.9, 0.88), "d": (0.85, 1.08)}
"""Speed of speech, and factor of pitch, by speaker."""
Float = NDArray[np.float64]


class Speaker:
    """The voice of `local`, called stage by stage."""

    def __init__(self) -> None:
        options = LocalOptions()
        voice = Voice(None)
        self._talk, self._vocode = Talk(options, voice), Vocode(options, voice)
        for stage in (self._talk, self._vocode):
            stage.load(lambda line: None)

    def say(self, text: str, speaker: str = "a") -> Int16Array:
        """Return a text as 16 kHz audio, without silence around it."""
        speed, pitch = SPEAKERS[speaker]
        clause = Clause(index=0, text=text, voice="joe", speed=speed / pitch)
        (latents,) = self._talk.step([job(clause)])
        assert isinstance(latents, Latents)
        (audio,) = self._vocode.step([job(LatentChunk(latents=latents, first=0, last=latents.frames))])
        assert isinstance(audio, Audio)
        return trimmed(soxr.resample(audio.pcm, audio.rate * pitch, RATE).astype(np.int16))


def trimmed(pcm: Int16Array, under_db: float = 35) -> Int16Array:
    """Return the audio from its first 10 ms of energy to its last."""
    block = RATE // 100
    levels = np.abs(pcm[: len(pcm) // block * block].reshape(-1, block).astype(float)).max(axis=1)
    loud = np.flatnonzero(levels > levels.max() * 10 ** (-under_db / 20))
    return pcm[loud[0] * block : (loud[-1] + 1) * block]


def cough(random: np.random.Generator) -> Float:
    """Return one cough: a burst, breath behind it, sometimes a second one."""
    bursts = [_burst(random) for _ in range(random.integers(1, 3))]
    return np.concatenate([np.concatenate([each, np.zeros(int(0.12 * RATE))]) for each in bursts])


def _burst(random: np.random.Generator) -> Float:
    n = int(random.uniform(0.18, 0.34) * RATE)
    t = np.arange(n) / RATE
    envelope = np.minimum(1, t / 0.006) * (np.exp(-t / random.uniform(0.03, 0.06)) + 0.25 * np.exp(-t / 0.12))
    return band(random.standard_normal(n), 250, random.uniform(2500, 4500)) * envelope


def click(random: np.random.Generator) -> Float:
    """Return one click of a mouse or of lips."""
    n = int(0.03 * RATE)
    decay = np.exp(-np.arange(n) / RATE / random.uniform(0.001, 0.004))
    return band(random.standard_normal(n), random.uniform(800, 1500), 7000) * decay


def knocks(random: np.random.Generator) -> Float:
    """Return three or four knocks at a door."""
    n = int(0.19 * RATE)
    t = np.arange(n) / RATE
    hz = random.uniform(120, 260)
    one = np.sin(2 * np.pi * hz * t) * np.exp(-t / 0.025) + 0.4 * band(random.standard_normal(n), 100, 1500) * np.exp(
        -t / 0.012
    )
    return np.tile(one, int(random.integers(3, 5)))


def typing(random: np.random.Generator) -> Float:
    """Return a second and a half of keys."""
    out = np.zeros(int(1.5 * RATE))
    at = 0.0
    while at < 1.4:
        start, key = int(at * RATE), click(random) * random.uniform(0.4, 1.0)
        out[start : start + len(key)] += key[: len(out) - start]
        at += random.uniform(0.06, 0.19)
    return out


def band(noise: Float, low: float, high: float) -> Float:
    """Return noise with nothing below `low` and above `high` (Hz)."""
    spectrum = np.fft.rfft(noise)
    hz = np.fft.rfftfreq(len(noise), 1 / RATE)
    spectrum[(hz < low) | (hz > high)] = 0
    return np.fft.irfft(spectrum, len(noise))


NOISES = {"cough": (cough, 16), "click": (click, 8), "knocks": (knocks, 8), "typing": (typing, 8)}


def save(name: str, pcm: NDArray[np.generic]) -> None:
    """Keep 16 kHz audio as `sounds/<name>.flac`, its peak at −3 dB of full scale."""
    _write(f"{name}.flac", pcm, "flac", {"compression_level": "12"}, {"metadata_header_padding": "0"})


def save_small(name: str, pcm: NDArray[np.generic]) -> None:
    """Keep 16 kHz speech as `sounds/<name>.opus`, at the bit rate of a call."""
    _write(f"{name}.opus", pcm, "libopus", {"b": "32000"}, {})


def _write(
    file: str, pcm: NDArray[np.generic], codec: str, codec_options: dict[str, str], file_options: dict[str, str]
) -> None:
    level = pcm.astype(float)
    loud = np.rint(level * (23_000 / np.abs(level).max())).astype(np.int16)
    SOUNDS.mkdir(exist_ok=True)
    with av.open(str(SOUNDS / file), "w", options=file_options) as container:
        stream = container.add_stream(codec, rate=RATE, layout="mono", options=codec_options)
        frame = av.AudioFrame.from_ndarray(loud[np.newaxis], format="s16", layout="mono")
        frame.sample_rate = RATE
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def slug(text: str) -> str:
    """Return a text as a file's name."""
    return re.sub(r"[^a-z]+", "-", text.lower()).strip("-")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--held-out", action="store_true", help="only the held-out recordings")
    options = parser.parse_args()
    speaker = Speaker()
    save_held_out(speaker)
    if options.held_out:
        return
    for kind, texts in (("backchannel", BACKCHANNELS), ("interruption", INTERRUPTIONS)):
        for text in texts:
            for who in SPEAKERS:
                save(f"{kind}-{slug(text)}-{who}", speaker.say(text, who))
    for number, text in enumerate(REPLIES):
        save(f"reply-{number}", speaker.say(text))
    for number, (before, after) in enumerate(PAUSED):
        who = "bcd"[number % 3]
        save(f"paused-{number}-before", speaker.say(before, who))
        save(f"paused-{number}-after", speaker.say(after, who))
    for kind, (make, count) in NOISES.items():
        for number in range(count):
            save(f"{kind}-{number:02d}", make(np.random.default_rng([number, len(kind)])))


def save_held_out(speaker: Speaker) -> None:
    """Say and keep what is in `held_out`, the speakers taking turns."""
    for kind, texts, speakers in (("broken", BROKEN_OFF, "abcd"), ("complete", COMPLETE, "dcba")):
        for number, (before, after) in enumerate(texts):
            who = speakers[number % 4]
            save_small(f"{kind}-{number:02d}-before", speaker.say(before, who))
            save_small(f"{kind}-{number:02d}-after", speaker.say(after, who))
    for number, text in enumerate(FINISHED):
        save_small(f"finished-{number:02d}", speaker.say(text, "badc"[number % 4]))


if __name__ == "__main__":
    main()
