"""Recorded sessions run again to the same effects: people who interrupt, stages that fail, clients that vanish."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from duplex_models.sim import SimOptions

from duplex.media.contract import VideoFrame
from duplex.replay import describe, replay, to_json
from duplex.session import core
from duplex.session.core import SessionCore
from duplex.session.effects import CutLane
from duplex.session.messages import Network
from duplex.telemetry.recording import RecordingError, SeededIds, Tape
from tests.sim.recorded import conversations, hang_up, recorder, under_record
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim


def test_fifty_recorded_sessions_with_interruptions_and_faults_run_again_to_the_same_effects(tmp_path: Path) -> None:
    """Five sessions of each of ten seeds."""
    interrupted = failed = 0.0
    steps = []
    for seed in range(10):
        outcomes: Counter[str] = Counter()
        recording = recorder(tmp_path / str(seed), outcomes, seed)
        server = conversations(seed, recording)
        recording.close()
        server.check()
        interrupted += server.total("duplex_barge_in_total", outcome="confirmed")
        failed += server.total("duplex_replies_total", status="failed")
        files = sorted((tmp_path / str(seed) / "recordings").iterdir())
        assert (seed, len(files), outcomes) == (seed, 5, {"ended": 5})
        for file in files:
            result = replay(file)
            assert (file, result.difference, result.warnings, result.end) == (file, None, [], "ended")
            steps.append(result.steps)
    assert (len(steps), interrupted >= 20, failed >= 10) == (50, True, True)
    assert median(steps) > 200


def one(folder: Path, server: Server, talk: Callable[[Session], None], **settings: Any) -> tuple[Path, Session]:
    """Record one session of a server; return its file and the session."""
    recording = recorder(folder, **settings)
    under_record(server, recording)
    session = server.connect()
    talk(session)
    hang_up(server, recording)
    recording.close()
    (file,) = (folder / "recordings").iterdir()
    return file, session


def interrupted(session: Session) -> None:
    """Let the reply sound for a while, and speak over it."""
    session.type_text("go on")
    session.server.advance(2100)
    session.say(1000)
    session.server.advance(4000)


def edited(file: Path, change: Callable[[list[Any]], object]) -> Path:
    """Change the lines of a recording."""
    lines = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    change(lines)
    other = file.with_name("edited")
    other.write_bytes(gzip.compress(b"".join(json.dumps(line).encode() + b"\n" for line in lines)))
    return other


def test_a_session_under_record_behaves_as_one_that_is_not(tmp_path: Path) -> None:
    _, recorded = one(tmp_path, Server(), interrupted)
    server = Server()
    plain = server.connect()
    interrupted(plain)
    plain.leave()
    assert recorded.client.types() == plain.client.types()
    assert recorded.sounding() == plain.sounding()
    assert [(when, type(effect)) for when, effect in recorded.effects] == [
        (when, type(effect)) for when, effect in plain.effects
    ]


def test_ids_come_from_the_recorded_seed(tmp_path: Path) -> None:
    file, session = one(tmp_path, Server(), interrupted)
    ids = SeededIds(Tape(file).header.seed)
    drawn = {ids("item") for _ in range(20)}
    assert session.client.of("conversation.item.added")[0]["item"]["id"] in drawn


def test_a_tick_model_and_a_camera_run_again_too(tmp_path: Path) -> None:
    def shown(session: Session) -> None:
        session.actor.see(VideoFrame(rgb=np.zeros((2, 2, 3), np.uint8), at=session.server.world.now()))
        interrupted(session)

    def spoken_to(session: Session) -> None:
        for _ in range(3):
            session.say(900)
            session.server.advance(2500)

    tick, _ = one(tmp_path / "tick", Server(SimOptions(vad="level", form="tick")), spoken_to)
    seen, session = one(tmp_path / "seen", Server(SimOptions(vad="level", reads=("EXIT",))), shown)
    assert "EXIT" in session.server.stage("think").prompts[0].messages[0].text
    assert replay(tick).difference is None and replay(tick).effects > 30
    assert replay(seen).difference is None


def test_a_changed_core_is_told_at_its_first_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, _ = one(tmp_path, Server(), interrupted)
    monkeypatch.setattr(core, "CutLane", lambda lane, epoch, fade_ms: CutLane(lane=lane, epoch=epoch, fade_ms=99))
    result = replay(file)
    found = result.difference
    assert found is not None and not result.same
    assert (found.expected["$"], found.expected["fade_ms"], found.got["fade_ms"]) == ("CutLane", 8, 99)
    assert found.where == [("fade_ms", "8", "99")]
    assert 2.3 < found.at_s < 2.6
    assert found.message.startswith("Heard(span=")
    said = describe(result)
    assert "DIFFERENT: sess_0" in said and "CutLane:" in said and "fade_ms: recorded 8" in said and "got 99" in said
    assert json.loads(to_json(result))["difference"]["where"] == [["fade_ms", "8", "99"]]


@pytest.mark.parametrize(
    ("change", "expected", "got"),
    [
        (lambda out: out.pop(), None, "Send"),
        (lambda out: out.append({"$": "Duck", "gain_db": 1.0}), "Duck", None),
        (lambda out: out.insert(0, {"$": "Duck", "gain_db": 1.0}), "Duck", "Send"),
    ],
)
def test_an_effect_too_many_or_too_few_is_a_difference(
    tmp_path: Path, change: Callable[[list[Any]], None], expected: str | None, got: str | None
) -> None:
    file, _ = one(tmp_path, Server(), lambda session: session.server.advance(100))
    result = replay(edited(file, lambda lines: change(lines[1]["out"])))
    found = result.difference
    assert found is not None and found.step == 1
    assert found.expected is None if expected is None else found.expected["$"] == expected
    assert found.got is None if got is None else found.got["$"] == got
    assert describe(result)


def test_more_jobs_than_were_drawn_show_as_a_difference(tmp_path: Path) -> None:
    file, _ = one(tmp_path, Server(), interrupted)
    result = replay(edited(file, lambda lines: [line["jobs"].clear() for line in lines[1:-1]]))
    assert result.difference is not None
    assert result.difference.where[0][0].endswith("id")


def test_a_session_that_broke_breaks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionCore, "_network", lambda core, msg: 1 / 0)

    def breaks(session: Session) -> None:
        session.say(500)
        session.server.advance(700)
        session.actor.post(Network(rtt_ms=1.0, jitter_ms=1.0, lost=0))

    file, session = one(tmp_path, Server(), breaks)
    assert session.client.closed == "error"
    assert replay(file).raised == "ZeroDivisionError"
    assert "the session broke with ZeroDivisionError, and does again" in describe(replay(file))
    monkeypatch.undo()
    mended = replay(file).difference
    assert mended is not None
    assert (mended.expected, mended.got) == ({"$": "exception", "class": "ZeroDivisionError"}, None)


def test_a_shell_that_breaks_leaves_a_record_up_to_there(tmp_path: Path) -> None:
    server = Server()

    def breaks(session: Session) -> None:
        session.server.advance(100)
        session.actor._events._encoder.encode = None  # type: ignore[assignment,method-assign]
        session.type_text("go on")

    file, session = one(tmp_path, server, breaks)
    assert session.client.closed == "error"
    assert replay(file).difference is None
    assert replay(file).end == "ended"


def test_other_code_and_other_settings_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, _ = one(tmp_path, Server(), interrupted)

    def confirm_later(lines: list[Any]) -> None:
        lines[0]["header"]["settings"]["barge_in"]["confirm_ms"] = 500

    other = edited(file, confirm_later)
    with pytest.raises(RecordingError, match="--force"):
        replay(other)
    forced = replay(other, force=True)
    assert forced.difference is not None
    assert forced.warnings == ["the settings in the file are not those that the session had"]
    (warning,) = replay(edited(file, lambda lines: lines[0]["header"].update(code="0123"))).warnings
    assert "other code: " in warning and "0123" in warning


@pytest.mark.parametrize("part", ["config", "traits", "settings"])
def test_a_header_of_which_no_core_can_be_made_is_told(tmp_path: Path, part: str) -> None:
    file, _ = one(tmp_path, Server(), lambda session: session.server.advance(100))
    with pytest.raises(RecordingError, match="no core can be made of its header"):
        replay(edited(file, lambda lines: lines[0]["header"].update({part: "text"})), force=True)


def test_one_that_breaks_off_runs_as_far_as_it_goes(tmp_path: Path) -> None:
    file, _ = one(tmp_path, Server(), interrupted)
    whole = replay(file)
    file.write_bytes(file.read_bytes()[: file.stat().st_size * 2 // 3])
    result = replay(file)
    assert result.same and result.end is None
    assert 10 < result.steps < whole.steps
    assert f"breaks off; it was run to its last whole step, {result.steps}" in describe(result)


@pytest.mark.parametrize(
    ("outcome", "settings"),
    [("bytes", {"session_bytes_max": 65_536}), ("minutes", {"session_minutes_max": 0.05})],
)
def test_at_its_bound_the_record_ends_and_the_session_goes_on(
    tmp_path: Path, outcome: str, settings: dict[str, Any]
) -> None:
    def long(session: Session) -> None:
        for _ in range(60 if outcome == "bytes" else 3):
            session.event(type="conversation.item.create", item=item(session.server.world.random.randbytes(2000).hex()))
            session.server.advance(100)
        interrupted(session)

    outcomes: Counter[str] = Counter()
    file, session = one(tmp_path, Server(), long, outcomes=outcomes, **settings)
    result = replay(file)
    assert (result.same, result.end, outcomes) == (True, outcome, {outcome: 1})
    assert f"ends before its session: {outcome}" in describe(result)
    assert file.stat().st_size <= 65_536
    assert session.client.of("response.done")


def test_a_writer_that_is_too_far_behind_costs_the_record_and_not_the_session(tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    file, session = one(tmp_path, Server(), interrupted, outcomes=outcomes, waiting_steps_max=100, flush_s=60)
    result = replay(file)
    assert (result.same, result.end, result.steps, outcomes) == (True, "overflow", 100, {"overflow": 1})
    assert "response.done" in session.client.types()


def test_no_room_and_a_disk_that_refuses_cost_the_record_and_not_the_session(tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    recording = recorder(tmp_path, outcomes, files_max=1)
    server = Server()
    under_record(server, recording)
    first, second = server.connect(), server.connect()
    interrupted(first)
    assert second.client.of("session.created")
    hang_up(server, recording)
    recording.close()
    assert outcomes == {"ended": 1, "refused": 1}
    (tmp_path / "gone").mkdir(mode=0o700)
    recording = recorder(tmp_path / "gone", outcomes)
    (tmp_path / "gone" / "recordings").rmdir()
    server = Server()
    under_record(server, recording)
    session = server.connect()
    interrupted(session)
    hang_up(server, recording)
    recording.close()
    assert outcomes["failed"] == 1
    assert session.client.of("response.done")


def test_voice_is_kept_only_where_it_is_asked_for_and_no_other_sound_ever(tmp_path: Path) -> None:
    silent, _ = one(tmp_path / "a", Server(), interrupted)
    voiced, _ = one(tmp_path / "b", Server(), interrupted, voice=True)
    assert b'"data":"' not in gzip.decompress(silent.read_bytes())
    steps = [json.loads(line) for line in gzip.decompress(voiced.read_bytes()).splitlines()[1:-1]]
    kept = [step["in"]["payload"]["$"] for step in steps if '"data": "' in json.dumps(step["in"])]
    assert kept and set(kept) == {"Audio"}
    assert not any('"data": "' in json.dumps(step["out"]) for step in steps)
    assert replay(voiced).same


def item(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
