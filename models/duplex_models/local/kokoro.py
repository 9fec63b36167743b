"""Kokoro-82M as talker and vocoder in one: a clause's text → its audio, and when each of its words ends in it.

    ids:     0 h ə l ˈ O , ␣ w …  0          one id per phoneme; 0 in front and behind
    frames:  n n n n n n n n n …  n          600 samples each: the model's own durations, read out of the same run

It computes a clause as a whole, so first audio waits for all of it. Source: Kokoro-82M, config.json (`vocab`).
"""

from __future__ import annotations

import hmac
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from duplex.engines.onnx import OnnxModel
from duplex.payloads import Audio, Clause, Float32Array, Int16Array, Job, StageError, WordMark
from duplex.stages.contract import NodeSpec, PackError, Progress, Role
from duplex_models.local import weights
from duplex_models.local.assembly import KOKORO, assembled, cache_folder, install
from duplex_models.local.options import LocalOptions
from duplex_models.local.pcm import to_int16
from duplex_models.local.phonemes import Lexicon
from duplex_models.local.speakable import SpokenWord, speakable
from duplex_models.local.starting import starting

RATE = 24_000
_HOP = 600
_DURATIONS = "/encoder/Clip_output_0"
"""Tensor of frames per id, shape (1, ids)."""
_STYLE_WIDTH = 256
_STYLE_ROWS = 510
"""One style for each number of phonemes, which is therefore the longest clause; the rest is left unsaid."""
_SPEED = (0.5, 2.0)
_LEAD_FRAMES = 2
"""Frames of silence that are left in front of a clause."""
_PAUSE = RATE // 5
"""Silence left behind a clause that ends with a mark; the model leaves about 0.45 s behind every clause."""
_JOINT = RATE // 25
"""The same behind one that ends inside a sentence."""
_PAUSING = ".!?…,;:"
_LEVEL_STEP = RATE // 200
_SILENCE_DB = 35
"""Under the loudest 5 ms by this much: nothing is heard."""
STYLES = {
    "d583ccff3cdca2f7fae535cb998ac07e9fcb90f09737b9a41fa2734ec44a8f0b": "af_heart",
    "1d1f21dd8da39c30705cd4c75d039d265e9bc4a2a93ed09bc9e1b1225eb95ba1": "am_michael",
}
"""SHA-256 of the style files that are taken, with the voices' names."""
_GET_STYLE = (
    "`npm pack kokoro-js@1.2.1 && tar -xzf kokoro-js-1.2.1.tgz package/voices/af_heart.bin`, "
    "then model.options.kokoro_style = that file"
)
_IDS = {
    ";": 1, ":": 2, ",": 3, ".": 4, "!": 5, "?": 6, " ": 16, "A": 24, "I": 25, "O": 31, "Q": 33, "S": 35, "T": 36,
    "W": 39, "Y": 41, "ᵊ": 42, "a": 43, "b": 44, "d": 46, "e": 47, "f": 48, "h": 50, "i": 51, "j": 52, "k": 53, "l": 54,
    "m": 55, "n": 56, "o": 57, "p": 58, "s": 61, "t": 62, "u": 63, "v": 64, "w": 65, "x": 66, "z": 68, "ɑ": 69, "ɐ": 70,
    "ɒ": 71, "æ": 72, "ɔ": 76, "ð": 81, "ʤ": 82, "ə": 83, "ɚ": 85, "ɛ": 86, "ɜ": 87, "ɡ": 92, "ɪ": 102, "ŋ": 112,
    "θ": 119, "ɹ": 123, "ɾ": 125, "ʃ": 131, "ʧ": 133, "ʊ": 135, "ʌ": 138, "ʒ": 147, "ʔ": 148, "ˈ": 156, "ˌ": 157,
    "ː": 158, "ᵻ": 177,
}  # fmt: skip
_PUNCTUATION = " .,!?;:"


class KokoroTalk:
    """Batch stage: `Clause` → `Audio`; keeps nothing between calls."""

    spec = NodeSpec(
        name="talker",
        role=Role.TALK,
        takes=Clause,
        gives=Audio,
        unit="clause",
        cut_ms=5000,
        step_s=1.0,
    )

    def __init__(self, options: LocalOptions) -> None:
        self._options = options
        self._model: OnnxModel | None = None
        self._styles: Float32Array | None = None
        self._lexicon: Lexicon | None = None

    def load(self, progress: Progress) -> None:
        """Load the voice, its style and the dictionaries, and speak once.

        Raises:
            PackError: the weights or the style are missing or damaged; the message says how to get them.
        """
        progress("talker: Kokoro-82M")
        options = self._options
        self._styles = read_styles(options.kokoro_style)
        folder = assembled(KOKORO, cache_folder(options.cache_dir), progress)
        self._lexicon = Lexicon()
        with starting("the talker"):
            graph = with_durations(folder / KOKORO.files[0].name)
            self._model = OnnxModel(graph, threads=options.onnx_threads)
            self._audio(Clause(index=0, text="Hello there.", voice="default"))

    def step(self, jobs: Sequence[Job]) -> list[Audio | StageError]:
        """Return each clause's audio; none for a clause in which nothing can be said."""
        results: list[Audio | StageError] = []
        for job in jobs:
            if isinstance(job.payload, Clause):
                results.append(self._audio(job.payload))
            else:
                results.append(StageError(reason="the talker takes a clause", kind="refused"))
        return results

    def _audio(self, clause: Clause) -> Audio:
        assert self._model is not None and self._lexicon is not None, "loaded before the first step"
        assert self._styles is not None, "loaded before the first step"
        words = speakable(clause.text)
        ids, ends = phoneme_ids(self._lexicon.phonemes([word.text for word in words]))
        if not len(ids):
            return Audio(clause=clause.index, pcm=np.zeros(0, np.int16), rate=RATE, last=True)
        slowest, fastest = _SPEED
        samples, durations = self._model.run(
            {
                "tokens": np.concatenate([[0], ids, [0]])[np.newaxis].astype(np.int64),
                "style": self._styles[len(ids) - 1][np.newaxis],
                "speed": np.array([min(max(clause.speed, slowest), fastest)], np.float32),
            },
            ["audio", _DURATIONS],
        )
        frames = durations.reshape(-1).astype(int)
        skipped = max(0, int(frames[0]) - _LEAD_FRAMES)
        pcm = to_int16(samples.reshape(-1)[skipped * _HOP :])
        sound = sound_end(pcm)
        marks = word_marks(words, ends, frames, skipped, sound)
        pcm = pcm[: sound + (_PAUSE if clause.text.rstrip()[-1:] in _PAUSING else _JOINT)]
        return Audio(clause=clause.index, pcm=pcm, rate=RATE, last=True, words=marks)

    def release(self, session: str) -> None:
        """Nothing is kept for a session."""

    def close(self) -> None:
        """Forget the model."""
        self._model = self._styles = self._lexicon = None


def phoneme_ids(groups: Sequence[str]) -> tuple[NDArray[np.int64], list[int]]:
    """Return a clause's ids, and for every word how many of them come before its sound ends.

    Args:
        groups: one string of misaki's phonemes for each word, with the mark behind it.
    """
    ids: list[int] = []
    ends: list[int] = []
    for group in groups:
        known = [phoneme for phoneme in group if phoneme in _IDS]
        spoken = len("".join(known).rstrip(_PUNCTUATION))
        if not spoken:
            ends.append(ends[-1] if ends else 0)
            continue
        if ids:
            ids.append(_IDS[" "])
        ends.append(len(ids) + spoken)
        ids += [_IDS[phoneme] for phoneme in known]
    ids = ids[:_STYLE_ROWS]
    return np.array(ids, np.int64), [min(end, len(ids)) for end in ends]


def word_marks(
    words: Sequence[SpokenWord],
    ends: Sequence[int],
    frames: Sequence[int] | NDArray[np.int64],
    skipped: int,
    sound: int,
) -> tuple[WordMark, ...]:
    """Return when each written word ends, in samples.

    Args:
        words: what is said, in order.
        ends: ids up to each word's end, the 0 in front not counted.
        frames: of every id, the 0 in front and behind counted.
        skipped: frames that were cut off in front.
        sound: samples up to where the clause's sound ends; no word ends behind it (a last phoneme's frames fade to silence).
    """
    until = list(itertools.accumulate(int(n) for n in frames))
    return tuple(
        WordMark(text_end=word.end, end=min(sound, max(0, until[end] - skipped) * _HOP))
        for word, end in zip(words, ends, strict=True)
        if word.end is not None
    )


def sound_end(pcm: Int16Array) -> int:
    """Return the samples up to where the sound of a clause ends."""
    steps = pcm[: len(pcm) // _LEVEL_STEP * _LEVEL_STEP].astype(np.float64).reshape(-1, _LEVEL_STEP)
    level = np.sqrt((steps**2).mean(axis=1))
    loud = np.flatnonzero(level > level.max(initial=0.0) * 10 ** (-_SILENCE_DB / 20))
    return int(loud[-1] + 1) * _LEVEL_STEP if len(loud) else 0


def with_durations(path: Path) -> bytes:
    """Return the graph with its frames per phoneme as one more output.

    Raises:
        PackError: it has no such tensor.
    """
    model = onnx.load(str(path))
    if not any(_DURATIONS in node.output for node in model.graph.node):
        raise PackError(f"{path.name} is not the export of Kokoro that this version was made for")
    model.graph.output.append(onnx.helper.make_tensor_value_info(_DURATIONS, onnx.TensorProto.FLOAT, None))
    serialized: bytes = model.SerializeToString()
    return serialized


def read_styles(path: Path | None) -> Float32Array:
    """Return a voice's styles, shape (510, 256).

    Raises:
        PackError: the file is not configured, not there, or not one of `STYLES`.
    """
    if path is None:
        raise PackError(f"the voice kokoro needs a style: {_GET_STYLE} (the model itself: {install(KOKORO.extra)})")
    try:
        digest = weights.sha256_of(path)
    except OSError as error:
        raise PackError(
            f"model.options.kokoro_style: {path} cannot be read ({error.strerror}): {_GET_STYLE}"
        ) from error
    if not any(hmac.compare_digest(digest, known) for known in STYLES):
        raise PackError(f"model.options.kokoro_style: {path} is none of {', '.join(STYLES.values())}: {_GET_STYLE}")
    return np.fromfile(path, dtype="<f4").reshape(_STYLE_ROWS, _STYLE_WIDTH)
