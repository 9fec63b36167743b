"""`duplex doctor`: what is wrong is found and said with what to do; what is well is not complained of."""

from __future__ import annotations

import json
import logging
import socket
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from duplex_models.sim import SimOptions, make

from duplex import doctor
from duplex.cli import main
from duplex.config import ServerSettings, Settings
from duplex.doctor import Finding, Level
from duplex.media import processing
from duplex.stages.contract import ModelPack, PackError

pytestmark = pytest.mark.unit


def pack() -> ModelPack:
    return make(SimOptions(vad="level"), after=lambda seconds, call: lambda: None)


def only(findings: Iterable[Finding]) -> Finding:
    (finding,) = findings
    return finding


def test_a_machine_that_can_serve_has_nothing_bad() -> None:
    findings = doctor.examine(Settings.model_validate({"server": {"port": 0}}), pack, None)
    assert [finding for finding in findings if finding.level is Level.BAD] == []
    names = [finding.name for finding in findings]
    assert names[0] == "python" and names[-1] == "model"
    assert {"port", "udp", "reach", "opus", "VP8", "H264", "page"} <= set(names)
    assert doctor.describe(findings).endswith("all is well")


def test_everything_that_is_not_ok_says_what_to_do() -> None:
    settings = Settings.model_validate({"server": {"host": "0.0.0.0", "port": 0}})
    findings = [f for f in doctor.examine(settings, pack, None) if f.level is not Level.OK]
    # No key though others reach it; plain HTTP; the test double says that it is one.
    assert {"keys", "microphone", "model"} <= {finding.name for finding in findings}
    assert all(finding.advice for finding in findings)


def test_a_port_in_use_is_bad_and_names_the_way_out() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        number = other.getsockname()[1]
        taken = only(doctor.port("127.0.0.1", number))
    assert taken.level is Level.BAD
    assert f":{number}" in taken.seen and "--port 0" in taken.advice
    assert only(doctor.port("127.0.0.1", number)).level is Level.OK


@pytest.mark.parametrize(
    ("host", "says"), [("198.51.100.7", "no such address"), ("no.such.host.invalid", "an address of")]
)
def test_an_address_that_is_not_ours_is_bad(host: str, says: str) -> None:
    finding = only(doctor.port(host, 0))
    assert finding.level is Level.BAD and says in finding.advice


def test_with_tls_and_insecure_said_aloud_a_server_for_others_is_well() -> None:
    server = ServerSettings(host="0.0.0.0", tls=True, insecure=True)
    assert {finding.level for finding in doctor.reach(server)} == {Level.OK}


def test_a_page_that_is_not_built_is_a_hint(tmp_path: Path) -> None:
    assert only(doctor.page(tmp_path)).level is Level.HINT
    (tmp_path / "index.html").write_text("<!doctype html>")
    assert only(doctor.page(tmp_path)).level is Level.OK


def bad(settings: dict[str, Any]) -> Finding:
    """Return the one thing that is wrong in a configuration with which a start fails."""
    findings = doctor.examine(Settings.model_validate({"server": {"port": 0}} | settings), pack, None)
    return only(finding for finding in findings if finding.level is Level.BAD)


def test_a_certificate_that_cannot_be_loaded_or_kept_is_bad(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    absent = {"tls_certificate": str(tmp_path / "a.pem"), "tls_key": str(tmp_path / "a.key")}
    for tls in (absent, {"tls": True, "tls_dir": str(tmp_path / "file" / "tls")}):
        assert bad({"server": {"port": 0, **tls}}).name == "certificate"
    well = Settings.model_validate({"server": {"tls": True, "tls_dir": str(tmp_path / "new" / "tls")}})
    assert only(doctor.kept(well)).level is Level.OK
    assert not (tmp_path / "new").exists(), "looking makes nothing"


def test_a_folder_that_does_not_do_for_recordings_is_bad(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    tmp_path.chmod(0o755)
    assert "cannot be written" in bad({"recording": {"directory": str(tmp_path / "file" / "x")}}).seen
    assert "chmod 700" in bad({"recording": {"directory": str(tmp_path)}}).advice
    tmp_path.chmod(0o700)
    assert only(doctor.kept(Settings.model_validate({"recording": {"directory": str(tmp_path)}}))).level is Level.OK


def test_an_extra_that_is_asked_for_and_missing_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise processing.ProcessingUnavailable("pip install it")

    monkeypatch.setattr(processing, "load", missing)
    assert bad({"media": {"processing": "apm"}}).seen == "pip install it"
    monkeypatch.setitem(sys.modules, "duplex.telemetry.otel", None)
    assert "duplex[otel]" in bad({"telemetry": {"otlp_endpoint": "http://127.0.0.1:9"}}).seen


def test_a_stage_that_can_have_no_process_is_bad() -> None:
    assert "cannot have a process" in bad({"stages": {"processes": ["think"]}}).seen


def test_a_pack_that_cannot_be_made_or_loaded_is_bad() -> None:
    def missing() -> ModelPack:
        raise PackError("needs a package that is not installed")

    assert only(doctor.model(missing)).seen == "needs a package that is not installed"
    broken = pack()
    closed: list[str] = []
    for stage in broken.stages:
        stage.close = lambda name=stage.spec.name: closed.append(name)  # type: ignore[misc]

    def fail(progress: object) -> None:
        raise PackError("the weights' hash is wrong")

    broken.stages[-1].load = fail  # type: ignore[method-assign]
    found = only(doctor.model(lambda: broken))
    assert found.level is Level.BAD and "hash is wrong" in found.seen
    assert len(closed) == len(broken.stages)


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("turn:relay.example", ("relay.example", 3478, "udp")),
        ("turn:relay.example:5000?transport=tcp", ("relay.example", 5000, "tcp")),
        ("turn:[2001:db8::1]:3479", ("2001:db8::1", 3479, "udp")),
    ],
)
def test_turn_urls(url: str, where: tuple[str, int, str]) -> None:
    assert doctor.parse_turn(url) == where


@pytest.mark.parametrize("url", ["relay.example", "stun:relay.example", "turn:", "turn:a?transport=sctp"])
def test_what_is_no_turn_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="no TURN URL"):
        doctor.parse_turn(url)


@pytest.fixture
def logs_as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()
    logging.captureWarnings(False)


@pytest.mark.usefixtures("logs_as_before")
def test_the_command_prints_json_and_its_status_tells(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--model", "sim", "--port", "0", "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)
    assert {"name", "level", "seen", "advice"} == set(findings[0])
    assert main(["doctor", "--model", "sim", "--host", "198.51.100.7", "--port", "0"]) == 1
    assert "2 things to mend" in capsys.readouterr().out
    assert main(["doctor", "--model", "no-such-pack", "--port", "0"]) == 1
    assert "no model pack" in capsys.readouterr().out
