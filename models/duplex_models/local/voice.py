"""The voice, split into two graphs: text → latent frames (talker) and latent frames → audio (vocoder).

Piper exports one graph; streaming-vits cuts it where all randomness has been drawn, so that frames can be decoded in
chunks. Its frontend gets one more output, the frames of every phoneme *of the same run* (the model's durations are random
per run), from which word timings follow. The split takes seconds, so it is made once and kept in the user's cache folder,
under the hash of the voice, with the hashes of what was made.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

import onnx
from streaming_vits import graph

from duplex.stages.contract import PackError, Progress
from duplex_models.local import weights
from duplex_models.local.assembly import cache_folder

RATE = 22_050
"""Samples per second of the voice."""
_FORMAT = 1
_FRONTEND, _DECODER, _MANIFEST = "frontend.onnx", "decoder.onnx", "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitVoice:
    """The two graphs and the names at their seam."""

    folder: Path
    hop: int
    """Audio samples per latent frame."""
    z: str
    """Tensor of latent frames, shape (1, channels, frames)."""
    mask: str
    """Tensor of ones, shape (1, 1, frames)."""
    durations: str
    """Tensor of frames per phoneme id, shape (1, 1, ids)."""

    @property
    def frontend(self) -> Path:
        """Graph of the talker."""
        return self.folder / _FRONTEND

    @property
    def decoder(self) -> Path:
        """Graph of the vocoder."""
        return self.folder / _DECODER


class Voice:
    """The split voice, made or found once for the talker and the vocoder, whichever loads first."""

    def __init__(self, cache_dir: Path | None) -> None:
        self._cache_dir = cache_dir
        self._lock = threading.Lock()
        self._split: SplitVoice | None = None

    def split(self, progress: Progress) -> SplitVoice:
        """Return the split voice, making it if the cache has none.

        Raises:
            PackError: the weights are missing or damaged, or the cache folder cannot be written.
        """
        with self._lock:
            if self._split is None:
                self._split = _find_or_make(cache_folder(self._cache_dir), progress)
            return self._split


def _find_or_make(cache: Path, progress: Progress) -> SplitVoice:
    source = weights.verified(weights.VOICE)
    folder = cache / f"voice-{weights.VOICE.sha256[:16]}-{_FORMAT}"
    found = _read(folder)
    if found is not None:
        return found
    progress("voice: splitting it into talker and vocoder (once)")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".voice-") as scratch:
            made = Path(scratch) / "made"
            _make(source, made)
            shutil.rmtree(folder, ignore_errors=True)  # damaged, else it had been found
            weights.publish(made, folder)
    except OSError as error:
        raise PackError(f"{cache} cannot hold the split voice ({error}): set model.options.cache_dir") from error
    made_split = _read(folder)
    if made_split is None:
        raise PackError(f"the split voice in {folder} is damaged: remove that folder and start again")
    return made_split


def _read(folder: Path) -> SplitVoice | None:
    """Return what lies in a cache folder, or None where it is missing or not what was written."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text())
        intact = all(weights.sha256_of(folder / name) == digest for name, digest in manifest["sha256"].items())
        return SplitVoice(folder=folder, **manifest["seam"]) if intact and len(manifest["sha256"]) == 2 else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _make(source: Path, folder: Path) -> None:
    """Split the voice, add the durations to the talker's outputs, and write the manifest."""
    try:
        split = graph.split(source, folder, sample_rate=RATE, verbose=False)
        frontend = onnx.load(str(folder / split.frontend))
    except (ValueError, RuntimeError, onnx.checker.ValidationError) as error:
        raise PackError(f"the voice cannot be split: {error}") from error
    ceils = [node.output[0] for node in frontend.graph.node if node.op_type == "Ceil"]
    if len(ceils) != 1 or split.seam.g is not None:
        raise PackError("the voice cannot be split: it is not a single-speaker VITS graph with one duration predictor")
    frontend.graph.output.append(onnx.helper.make_tensor_value_info(ceils[0], onnx.TensorProto.FLOAT, None))
    onnx.save(frontend, str(folder / _FRONTEND))
    for leftover in (split.frontend, f"{source.stem}.split.json"):
        (folder / leftover).unlink()
    (folder / split.decoder).rename(folder / _DECODER)
    seam = SplitVoice(folder=folder, hop=split.hop, z=split.seam.z_p, mask=split.seam.mask, durations=ceils[0])
    manifest = {
        "seam": {key: value for key, value in asdict(seam).items() if key != "folder"},
        "sha256": {name: weights.sha256_of(folder / name) for name in (_FRONTEND, _DECODER)},
    }
    (folder / _MANIFEST).write_text(json.dumps(manifest, indent=2))
