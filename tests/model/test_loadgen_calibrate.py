"""`loadgen calibrate --quick` on the pack `local` with real weights: a profile that the simulator runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from duplex.stages.contract import ModelPack
from loadgen import trace
from loadgen.cli import main
from loadgen.sim.profile import Profile, load
from loadgen.sim.world import Options, World

pytestmark = [pytest.mark.model, pytest.mark.alone]


@pytest.fixture(scope="module")
def profile(kept_pack: ModelPack, tmp_path_factory: pytest.TempPathFactory) -> Profile:
    path = tmp_path_factory.mktemp("profile") / "made.toml"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("loadgen.calibrate.command.load_pack", lambda settings: kept_pack)
        assert main(["calibrate", "--pack", "local", "--quick", "--threads", "2", "--out", str(path)]) == 0
    return load(str(path))


def test_every_cost_is_one_that_a_processor_can_have(profile: Profile) -> None:
    steps_s = {
        "end_of_turn": profile.end_of_turn.cost.seconds([1]),
        "transcribe": profile.transcribe.cost.seconds([3]),
        "prefill": profile.think.prefill.seconds([10]),
        "decode": profile.think.decode.seconds([1]),
        "talk": profile.talk.cost.seconds([100]),
        "vocode": profile.vocode.cost.seconds([10]),
    }
    assert all(0.001 < seconds < 5 for seconds in steps_s.values()), steps_s
    assert profile.think.prefill.seconds([60]) > profile.think.prefill.seconds([5])
    assert profile.transcribe.cost.seconds([8]) >= profile.transcribe.cost.seconds([1])


def test_it_knows_the_pack_the_machine_and_the_voice(profile: Profile) -> None:
    assert profile.name == "local" and "loadgen calibrate" in profile.source and "load average" in profile.source
    assert profile.shared == ("cpu",) and 1 <= profile.devices["cpu"] <= 4
    assert profile.think.pausable and profile.think.slots == 4
    assert 100 < profile.voice.words_per_minute < 300
    assert 11 < profile.voice.frame_ms < 12
    assert 1 <= profile.think.tokens_per_word < 2
    assert all(0 <= ms < 500 for ms in profile.voice.lead_in_ms)


def test_it_knows_how_the_ear_hears_a_turns_end(profile: Profile) -> None:
    hearing = profile.hearing
    assert len(hearing.tail_ms) == 9 and all(-100 < ms < 300 for ms in hearing.tail_ms)
    assert hearing.unsure == tuple(sorted(hearing.unsure, reverse=True))
    assert 0 < profile.vad_ms < 50


def test_the_simulator_runs_it(profile: Profile) -> None:
    sessions = trace.read(Path("duo")).sessions[:3]
    result = World(profile, "listener", Options(admission=False), seed=1).run(sessions)
    answered = [row.ttfas_s for row in result.rows if row.ttfas_s is not None]
    assert len(result.rows) == sum(len(session.turns) for session in sessions)
    assert len(answered) >= len(result.rows) // 2
    assert all(0.2 < ttfas < 10 for ttfas in answered)


def test_a_pack_that_is_not_there_is_refused_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--pack", "no such pack"]) == 2
    assert "no model pack" in capsys.readouterr().err
