"""Profiles: what a step costs, and one clear line for whatever is wrong with a file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loadgen.sim.profile import PROFILES, Cost, ProfileError, load

pytestmark = pytest.mark.unit
GOOD = """
name = "small"
source = "round numbers"
vad_ms = 10
sessions_max = 4
devices = { gpu = 1, cpu = 4 }
end_of_turn = { device = "cpu", cost = { base = 10 } }
transcribe = { device = "cpu", cost = { base = 20 } }
vocode = { device = "gpu", cost = { per_unit = 2 } }
[think]
device = "gpu"
slots = 8
decode = { base = 10 }
prefill = { base = 20 }
[talk]
device = "gpu"
kind = "engine"
cost = { base = 10 }
"""


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def test_a_good_one_is_read_with_its_defaults(tmp_path: Path) -> None:
    profile = load(written(tmp_path, GOOD))
    assert profile.devices == {"gpu": 1, "cpu": 4}
    assert profile.think.pausable and profile.talk.pieces == (1,)
    assert profile.vocode.batch_max == 16


@pytest.mark.parametrize("path", sorted(PROFILES.glob("*.toml")), ids=lambda path: path.stem)
def test_the_committed_ones_are_read_by_name_and_say_where_they_come_from(path: Path) -> None:
    profile = load(path.stem)
    assert profile.name == path.stem
    assert len(profile.source) > 40
    assert profile == load(str(path))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (GOOD + "color = 1", "talk.color: Extra inputs are not permitted"),
        ("color = 1\n" + GOOD, "color: Extra inputs are not permitted"),
        (changed("vad_ms = 10\n", ""), "vad_ms: Field required"),
        (changed("slots = 8\n", ""), "think.slots: Field required"),
        (changed("vad_ms = 10", "vad_ms = -1"), "vad_ms: Input should be greater than or equal to 0"),
        (changed("vad_ms = 10", "vad_ms = nan"), "vad_ms: Input should be a finite number"),
        (changed("sessions_max = 4", "sessions_max = 0"), "sessions_max: Input should be greater than or equal to 1"),
        (changed("per_unit = 2", "per_unit = -2"), "vocode.cost.per_unit: Input should be greater than or equal to 0"),
        (changed("per_unit = 2", "per_byte = 2"), "vocode.cost.per_byte: Extra inputs are not permitted"),
        (changed('kind = "engine"', 'kind = "motor"'), "talk.kind: Input should be 'engine' or 'batch'"),
        (GOOD + "pieces = []", "talk.pieces: Tuple should have at least 1 item after validation, not 0"),
        (GOOD + "pieces = [1, 0]", "talk.pieces.1: Input should be greater than or equal to 1"),
        (GOOD.replace('"gpu"\nslots', '"tpu"\nslots'), "think.device: 'tpu' is not among the devices"),
        (changed("vocode = { device = \"gpu\"", "vocode = { device = \"tpu\""), "vocode.device: 'tpu' is not among the devices"),
        ('shared = ["tpu"]\n' + GOOD, "shared: 'tpu' is not among the devices"),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused_with_its_key(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ProfileError) as refused:
        load(written(tmp_path, text))
    assert str(refused.value) == f"mine.toml: {reason}"


@pytest.mark.parametrize("name", ["nope", "./nope.toml", "/"])
def test_one_that_is_not_there_is_refused_with_those_that_are(name: str) -> None:
    with pytest.raises(ProfileError) as refused:
        load(name)
    said = str(refused.value)
    assert re.fullmatch(rf"profile {re.escape(name)}: .+ \(there are: .*large.*\)", said)


def test_a_file_that_is_no_toml_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"mine\.toml: .*line 2.*") as refused:
        load(written(tmp_path, 'name = "x"\nsource = = 1'))
    assert "\n" not in str(refused.value)


# Costs. ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cost", "units", "ms"),
    [
        (Cost(base=7), [], 0),
        (Cost(base=7), [3, 5], 7),
        (Cost(per_job=2), [3, 5], 4),
        (Cost(per_unit=2), [3, 5], 10),
        (Cost(per_job_unit=2), [3, 5], 16),
        (Cost(base=1, per_job=10, per_unit=100, per_job_unit=1000), [1, 2], 1 + 20 + 200 + 3000),
    ],
)
def test_what_a_step_costs(cost: Cost, units: list[float], ms: float) -> None:
    assert cost.seconds(units) == pytest.approx(ms / 1000)


def test_words_become_whole_codec_frames(tmp_path: Path) -> None:
    profile = load(written(tmp_path, GOOD + "[voice]\nwords_per_minute = 150\nframe_ms = 80\n"))
    assert profile.frames(1) == 5
    assert profile.frames(0) == 1  # an answer is never nothing
    assert profile.words_s(10) == pytest.approx(4.0)
