"""Weights in parts, and what is said when an opt-in model is not installed. No real weights."""

from __future__ import annotations

import hashlib
import shutil
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from duplex_models.local import create
from duplex_models.local.assembly import ALL, Assembly, PartedFile, assembled
from duplex_models.local.kokoro import phoneme_ids, read_styles, word_marks
from duplex_models.local.speakable import SpokenWord
from duplex_models.local.weights import Part

from duplex.payloads import Audio
from duplex.stages.contract import PackError, Role
from duplex.stages.graph import build_graph

pytestmark = pytest.mark.unit
ROOT = Path(__file__).parents[2]


@pytest.fixture
def assembly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Assembly:
    """Return a model of two parts and a whole file, in two packages."""
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    for number, contents in ((1, {"a.1": b"first "}), (2, {"a.2": b"second", "b": b"whole"})):
        package = tmp_path / "site" / f"partpack{number}"
        package.mkdir(parents=True)
        for name, content in contents.items():
            (package / name).write_bytes(content)

    def part(number: int, name: str) -> Part:
        return Part(package=f"partpack{number}==1", module=f"partpack{number}", path=name)

    def whole(name: str, content: bytes, *parts: Part) -> PartedFile:
        return PartedFile(name=name, parts=parts, sha256=hashlib.sha256(content).hexdigest())

    files = (whole("a", b"first second", part(1, "a.1"), part(2, "a.2")), whole("b", b"whole", part(2, "b")))
    return Assembly(name="thing", extra="thing-extra", files=files)


def test_parts_are_put_together_once_and_then_not_needed(assembly: Assembly, tmp_path: Path) -> None:
    lines: list[str] = []
    folder = assembled(assembly, tmp_path / "cache", lines.append)
    assert ((folder / "a").read_bytes(), (folder / "b").read_bytes()) == (b"first second", b"whole")
    shutil.rmtree(tmp_path / "site")
    assert assembled(assembly, tmp_path / "cache", lines.append) == folder
    assert lines == ["thing: putting it together (once)"]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [folder.name]


def test_a_damaged_whole_is_made_again_and_a_damaged_part_is_refused(assembly: Assembly, tmp_path: Path) -> None:
    folder = assembled(assembly, tmp_path / "cache", lambda line: None)
    (folder / "a").write_bytes(b"other")
    assert (assembled(assembly, tmp_path / "cache", lambda line: None) / "a").read_bytes() == b"first second"
    (folder / "b").unlink()
    (tmp_path / "site" / "partpack1" / "a.1").write_bytes(b"damaged")
    with pytest.raises(PackError, match=r"a does not have the expected SHA-256.*duplex\[thing-extra\]"):
        assembled(assembly, tmp_path / "cache", lambda line: None)


def test_a_missing_part_and_a_blocked_cache_say_what_to_do(assembly: Assembly, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(PackError, match="cache_dir"):
        assembled(assembly, tmp_path / "file", lambda line: None)
    (tmp_path / "site" / "partpack2" / "b").unlink()
    with pytest.raises(
        PackError, match=r"thing needs partpack2==1, which is not there: pip install 'duplex\[thing-extra\]'"
    ):
        assembled(assembly, tmp_path / "cache", lambda line: None)


@pytest.mark.parametrize("known", ALL, ids=lambda assembly: assembly.name)
def test_every_part_is_in_its_extra_and_on_the_page(known: Assembly) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    parts = {part.package for file in known.files for part in file.parts}
    assert set(extras[known.extra]) == parts
    page = (ROOT / "docs" / "models.md").read_text()
    for file in known.files:
        assert f"`{file.sha256}`" in page


# Options. ------------------------------------------------------------------------------------------------------------


def test_the_opt_in_models_fit_the_stage_graph() -> None:
    pack = create({"thinker": "qwen2.5-coder-1.5b", "voice": "kokoro", "whisper": "base"}, 2)
    graph = build_graph(pack)
    assert set(graph.nodes) == set(Role) - {Role.TICK, Role.VOCODE}
    assert graph.nodes[Role.TALK].spec.gives is Audio
    assert pack.voices == ("kokoro",)
    assert "1.5 billion" in pack.notice


@pytest.mark.parametrize(("option", "value"), [("thinker", "gpt"), ("voice", "bob"), ("whisper", "large")])
def test_an_unknown_model_is_named(option: str, value: str) -> None:
    with pytest.raises(PackError, match=f"model.options.{option}"):
        create({option: value}, 2)


# Kokoro's pure parts. ------------------------------------------------------------------------------------------------


def test_words_become_ids_with_their_ends() -> None:
    ids, ends = phoneme_ids(["həlˈO,", "??", "wˈɜɹld."])
    assert ids.tolist() == [50, 83, 54, 156, 31, 3, 16, 65, 156, 87, 123, 54, 46, 4]
    assert ends == [5, 5, 13]
    assert phoneme_ids([])[0].size == 0


def test_a_clause_longer_than_the_model_takes_is_cut() -> None:
    ids, ends = phoneme_ids(["abab"] * 300)
    assert len(ids) == 510
    assert max(ends) == 510


def test_word_marks_count_what_was_cut_off_in_front_and_end_with_the_sound() -> None:
    words = [SpokenWord(text="five", end=None), SpokenWord(text="dollars", end=2), SpokenWord(text="now", end=6)]
    marks = word_marks(words, [1, 2, 3], [16, 2, 3, 4, 1], skipped=14, sound=5_000)
    assert [(mark.text_end, mark.end) for mark in marks] == [(2, 7 * 600 - 0), (6, 5_000)]


@pytest.mark.parametrize("content", [None, b"", np.zeros((510, 256), "<f4").tobytes()])
def test_a_style_that_is_missing_or_unknown_says_how_to_get_one(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "style.bin"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(PackError, match=r"npm pack kokoro-js@1\.2\.1"):
        read_styles(file)
    with pytest.raises(PackError, match=r"needs a style.*duplex\[kokoro\]"):
        read_styles(None)


def test_a_missing_extra_stops_the_start_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(part: Part) -> Any:
        raise PackError("missing")

    monkeypatch.setattr("duplex_models.local.weights.locate", nothing)
    for options, role, extra in [({"whisper": "base"}, Role.TRANSCRIBE, "whisper-base"), ({"thinker": "qwen2.5-coder-1.5b"}, Role.THINK, "qwen")]:  # fmt: skip
        (stage,) = (s for s in create({**options, "cache_dir": str(tmp_path)}, 2).stages if s.spec.role is role)
        with pytest.raises(PackError, match=rf"pip install 'duplex\[{extra}\]'"):
            stage.load(lambda line: None)
