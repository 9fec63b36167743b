"""The command line: wrong usage ends with status 2 and says what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from duplex.cli import FAILED, USAGE, load_pack, main
from duplex.config import ConfigError, load

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["serve", "--port", "70000"], "server.port"),
        (["serve", "--host", "0.0.0.0"], "no API key is set"),
        (["serve", "--set", "server.tls_key=k.pem"], "need each other"),
        (["serve", "--set", 'server.trusted_proxies=["proxy"]'], "server.trusted_proxies"),
        (["serve", "--model", "none"], "no model pack 'none'; installed: "),
        (["serve", "--config", "none.toml"], "not found"),
        (["serve", "--set", "barge_in.on_onset=shout"], "barge_in.on_onset"),
        (["serve", "--set", "nonsense"], "SECTION.KEY=VALUE"),
        (["serve", "--set", ".x=1"], "SECTION.KEY=VALUE"),
        (["serve", "--set", "server=1", "--set", "server.port=2"], "server has a value already"),
        (["serve", "--set", "server.port=[]"], "server.port"),
        (["serve", "--model", "sim", "--set", 'model.options={"nope":1}'], "nope"),
    ],
)
def test_wrong_usage_is_told(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == USAGE
    printed = capsys.readouterr()
    assert says in printed.err
    assert printed.out == ""


@pytest.mark.parametrize("arguments", [[], ["dance"], ["serve", "--port", "x"], ["talk"]])
def test_unknown_arguments_end_with_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == USAGE
    assert "usage: duplex" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--help"], ["serve", "talk"]),
        (["serve", "--help"], ["--host", "--port", "--tls", "--model", "--config", "--set", "docs/configuration.md"]),
        (["talk", "--help"], ["--url", "--out", "--json", "latency"]),
        (["trace", "--help"], ["SESSION", "--url", "--key-file", "--out", "perfetto"]),
        (["talk", "--help"], ["--key-file", "DUPLEX_API_KEY"]),
        (["ready", "--help"], ["--config", "health"]),
    ],
)
def test_help_names_everything(arguments: list[str], says: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert [word for word in says if word not in shown] == []


def test_a_missing_recording_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["talk", str(tmp_path / "none.wav")]) == FAILED
    assert "cannot read" in capsys.readouterr().err


def test_the_container_asks_itself_as_it_was_configured() -> None:
    services = yaml.safe_load((Path(__file__).parents[2] / "docker-compose.yml").read_text())["services"]
    asked = services["duplex"]["healthcheck"]["test"]
    assert asked == ["CMD", "duplex", "ready"], "it reads the address and TLS from the container's environment"
    passed = services["duplex"]["environment"]
    assert {"DUPLEX_SERVER__TLS", "DUPLEX_SERVER__API_KEYS"} <= {
        name for name, value in passed.items() if value is None
    }


def test_packs_are_found_by_name() -> None:
    assert load_pack(load(model={"pack": "sim"})).test_double
    with pytest.raises(ConfigError, match="no model pack"):
        load_pack(load(model={"pack": "none"}))
    with pytest.raises(ConfigError, match="no_such_option"):
        load_pack(load(model={"pack": "sim", "options": {"no_such_option": 1}}))
