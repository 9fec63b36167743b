"""Recordings as files: who may read them, what bounds them, and what is left when one breaks off or is damaged."""

from __future__ import annotations

import gzip
import json
import os
import stat
import zlib
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pydantic import ValidationError

from duplex.config import ConfigError, RecordingSettings, Settings
from duplex.session.config import SessionConfig
from duplex.session.messages import Connected
from duplex.session.traits import Traits
from duplex.telemetry.recording.files import Folder, RecordingFile
from duplex.telemetry.recording.layout import (
    SCHEMA,
    Header,
    RecordingError,
    Tape,
    end_line,
    hash_of,
    header_line,
    recorded_settings,
    restored_settings,
    step_line,
)
from duplex.telemetry.recording.taped import Step
from duplex.units import MonoNs

pytestmark = pytest.mark.unit

DAY_NS = 86_400 * 10**9
TRAITS = Traits(transport="webrtc", semantic=True, pausable=True, transcribes=True, tick_mode=False)


def header(**changes: Any) -> Header:
    settings = recorded_settings(Settings())
    fields: dict[str, Any] = {
        "session": "sess_1", "version": "0", "code": "c", "pack": "sim", "pack_hash": "p", "settings": settings,
        "settings_hash": hash_of(settings), "traits": TRAITS, "config": SessionConfig(), "seed": "5", "began_unix_ns": 0,
    }  # fmt: skip
    return Header(**(fields | changes))


def step(at: int) -> bytes:
    return step_line(Step(at=MonoNs(at), message=Connected(), jobs=(), effects=()), keep_pcm=False)


def recording(path: Path, steps: int = 3) -> bytes:
    """Write a whole recording, and return its lines."""
    lines = header_line(header()) + b"".join(map(step, range(steps))) + end_line("ended", steps)
    path.write_bytes(gzip.compress(lines))
    return lines


def folder(path: Path, **settings: Any) -> Folder:
    return Folder(RecordingSettings(directory=path / "kept", **settings))


def fill(kept: Folder, sizes: list[int], newest_ns: int = 0) -> list[Path]:
    """Put files of these sizes there, a second apart, oldest first."""
    files = []
    for n, size in enumerate(sizes):
        file = kept.path / f"{n}.jsonl.gz"
        file.write_bytes(bytes(size))
        at = newest_ns - (len(sizes) - 1 - n) * 10**9
        os.utime(file, ns=(at, at))
        files.append(file)
    return files


def test_folder_and_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        kept = folder(tmp_path)
        file = RecordingFile(kept.path / "a.jsonl.gz", 100_000, 0)
        file.close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(kept.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        RecordingFile(file.path, 100_000, 0)


def test_a_folder_that_others_may_look_into_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept").chmod(0o750)
    with pytest.raises(ConfigError, match="chmod 700"):
        folder(tmp_path)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file")
    with pytest.raises(ConfigError, match=r"recording\.directory"):
        folder(tmp_path)


def test_the_oldest_go_when_there_are_too_many(tmp_path: Path) -> None:
    kept = folder(tmp_path, files_max=3)
    fill(kept, [10] * 5)
    assert kept.make_room((), 0)
    assert sorted(file.name for file in kept.path.iterdir()) == ["3.jsonl.gz", "4.jsonl.gz"]


def test_the_oldest_go_when_they_are_too_large_together(tmp_path: Path) -> None:
    kept = folder(tmp_path, session_bytes_max=2**16, total_bytes_max=2 * 2**16)
    fill(kept, [30_000, 33_000, 32_000])
    assert kept.make_room((), 0)
    assert sorted(file.name for file in kept.path.iterdir()) == ["1.jsonl.gz", "2.jsonl.gz"]


def test_those_that_are_written_stay_and_count_as_long_as_they_may_become(tmp_path: Path) -> None:
    kept = folder(tmp_path, session_bytes_max=2**16, total_bytes_max=2 * 2**16 + 100)
    first, second, third = fill(kept, [10, 60, 60])
    assert kept.make_room({first}, 0)
    assert (first.exists(), second.exists(), third.exists()) == (True, False, True)
    assert not kept.make_room({first, third}, 0)
    assert first.exists() and third.exists()


def test_old_ones_go_by_age(tmp_path: Path) -> None:
    kept = folder(tmp_path, keep_days=2)
    old, new = fill(kept, [10, 10], newest_ns=10 * DAY_NS)
    os.utime(old, ns=(8 * DAY_NS - 1, 8 * DAY_NS - 1))
    (kept.path / "notes.txt").write_text("not ours")
    kept.expire({old}, 10 * DAY_NS)
    assert old.exists()
    kept.expire((), 10 * DAY_NS)
    assert sorted(file.name for file in kept.path.iterdir()) == [new.name, "notes.txt"]


def test_a_file_never_outgrows_its_bound_whatever_is_written(tmp_path: Path) -> None:
    rng = Random(3)
    for n in range(20):
        file = RecordingFile(tmp_path / str(n), 8192, 256)
        while file.write(rng.randbytes(rng.randrange(1, 3000)).hex().encode() if n % 2 else b"x" * rng.randrange(5000)):
            if rng.random() < 0.2:
                file.flush()
        file.last(end_line("bytes", 1))
        assert 100 < file.path.stat().st_size <= 8192
        assert gzip.decompress(file.path.read_bytes()).endswith(b'"steps":1}\n')


def test_what_was_flushed_can_be_read_while_the_file_is_written(tmp_path: Path) -> None:
    file = RecordingFile(tmp_path / "a", 100_000, 256)
    for line in (header_line(header()), step(1), step(2)):
        assert file.write(line)
    file.flush()
    assert file.write(step(3))
    tape = Tape(file.path)
    assert [one.at for one in tape.steps()] == [1, 2]
    assert tape.end is None
    file.close()


def test_a_whole_recording_says_how_it_ended(tmp_path: Path) -> None:
    recording(tmp_path / "a")
    tape = Tape(tmp_path / "a")
    assert (tape.header, tape.end) == (header(), None)
    assert len(list(tape.steps())) == 3
    assert tape.end == "ended"


def test_one_that_breaks_off_anywhere_is_read_up_to_there_or_says_that_there_is_nothing(tmp_path: Path) -> None:
    recording(tmp_path / "a", steps=20)
    whole = (tmp_path / "a").read_bytes()
    read = []
    for length in range(0, len(whole), 37):
        (tmp_path / "b").write_bytes(whole[:length])
        try:
            tape = Tape(tmp_path / "b")
            read.append(len(list(tape.steps())))
        except RecordingError as error:
            assert "breaks off before its header" in str(error)
            read.append(-1)
    assert read == sorted(read)
    assert read[0] == -1 and read[-1] > 10


def test_one_that_is_damaged_is_told(tmp_path: Path) -> None:
    """Flip each of some bytes: what is read is either the truth or an error, never a silent difference."""
    recording(tmp_path / "a", steps=20)
    whole = (tmp_path / "a").read_bytes()
    told = 0
    for place in range(10, len(whole), 29):
        (tmp_path / "b").write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            tape = Tape(tmp_path / "b")
            steps = len(list(tape.steps()))
            assert tape.end is None or steps == 20
        except RecordingError as error:
            assert "damaged" in str(error) or "knows" in str(error) or "no recording" in str(error)
            told += 1
    assert told > 10


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "before its header"),
        (b"RIFF....", "no gzip"),
        (gzip.compress(b'{"a":1}\n'), "no recording"),
        (gzip.compress(b"[]\n"), "no object"),
        (gzip.compress(b"\xff\n"), "no JSON"),
        (gzip.compress(b'{"schema":1,"header":{}}\n'), "header is not one that this code knows"),
        (gzip.compress(b'{"schema":1,"header":null}\n'), "header is not one that this code knows"),
        (gzip.compress(b'{"schema":99,"header":{}}\n'), "schema 99"),
        (gzip.compress(b"x" * (1 << 27)), "a line is longer"),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(RecordingError, match=says):
        list(Tape(tmp_path / "a").steps())


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (end_line("ended", 5), "0 of 5 steps"),
        (end_line("ended", 0) + step(1), "goes on behind its end"),
        (b'{"at":1,"in":{"$":"Nothing"},"jobs":[],"out":[]}\n', "step 0 is not one"),
        (b'{"in":null}\n', "step 0 is not one"),
        (b'{"at":"1","in":null,"jobs":[],"out":[]}\n', "of another type"),
        (b'"text"\n', "no object"),
    ],
)
def test_steps_that_cannot_be_are_refused(tmp_path: Path, lines: bytes, says: str) -> None:
    (tmp_path / "a").write_bytes(gzip.compress(header_line(header()) + lines))
    with pytest.raises(RecordingError, match=says):
        list(Tape(tmp_path / "a").steps())


def test_bytes_behind_the_end_are_told(tmp_path: Path) -> None:
    recording(tmp_path / "a")
    with (tmp_path / "a").open("ab") as file:
        file.write(b"more")
    with pytest.raises(RecordingError, match="bytes follow"):
        list(Tape(tmp_path / "a").steps())


def test_force_reads_another_schema_as_if_it_were_this_one(tmp_path: Path) -> None:
    lines = recording(tmp_path / "a").replace(f'"schema":{SCHEMA}'.encode(), b'"schema":99', 1)
    (tmp_path / "a").write_bytes(gzip.compress(lines))
    with pytest.raises(RecordingError, match="--force"):
        Tape(tmp_path / "a")
    assert Tape(tmp_path / "a", force=True).schema == 99


def test_settings_come_back_without_those_that_hold_secrets_and_without_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = Settings.model_validate(
        {"server": {"api_keys": {"app": "secret-secret-secret"}}, "barge_in": {"confirm_ms": 321}, "threads": 3}
    )
    written = json.loads(json.dumps(recorded_settings(settings)))
    assert "secret" not in json.dumps(written)
    monkeypatch.setenv("DUPLEX_BARGE_IN__CONFIRM_MS", "7")
    restored = restored_settings(written)
    assert (restored.barge_in, restored.turn, restored.threads) == (settings.barge_in, settings.turn, 3)
    assert recorded_settings(restored) == written


@pytest.mark.parametrize("written", [{"unknown": {}}, {"turn": {"unknown": 1}}, {"turn": {"onset_ms": "soon"}}])
def test_settings_of_other_code_are_told(written: dict[str, Any]) -> None:
    with pytest.raises(RecordingError, match="other settings"):
        restored_settings(written)


def test_bounds_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValidationError, match="more than total_bytes_max"):
        RecordingSettings(session_bytes_max=2**20, total_bytes_max=2**17)


def test_nothing_is_recorded_by_default() -> None:
    assert Settings().recording.directory is None
    assert Settings().recording.voice is False


def test_a_gzip_reader_of_the_system_shows_a_recording(tmp_path: Path) -> None:
    lines = recording(tmp_path / "a")
    assert zlib.decompress((tmp_path / "a").read_bytes(), 31) == lines
