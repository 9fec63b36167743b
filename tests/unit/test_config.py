"""The configuration: who wins over whom, what is refused and how it is told, and its page in docs/."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import ValidationError

from duplex.config import ConfigError, load

pytestmark = pytest.mark.unit

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(autouse=True)
def _no_settings_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("DUPLEX_")]:
        monkeypatch.delenv(name)


def toml(folder: Path, text: str) -> Path:
    file = folder / "duplex.toml"
    file.write_text(text)
    return file


def test_the_defaults_stay_on_loopback() -> None:
    settings = load()
    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 8080)
    assert settings.model.pack == "local"
    assert settings.server.cors_origins == ()


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = toml(tmp_path, '[server]\nport = 1001\nhost = "::1"\n[turn]\nonset_ms = 64\n[model]\npack = "sim"\n')
    assert load(file).server.port == 1001
    monkeypatch.setenv("DUPLEX_SERVER__PORT", "1002")
    monkeypatch.setenv("DUPLEX_SERVER__CORS_ORIGINS", '["https://a.example"]')
    assert load(file).server.port == 1002
    settings = load(file, server={"port": 1003})
    assert (settings.server.port, settings.server.host) == (1003, "::1")
    assert settings.server.cors_origins == ("https://a.example",)
    assert (settings.turn.onset_ms, settings.turn.first_look_ms, settings.model.pack) == (64, 352, "sim")


def test_a_file_of_one_start_does_not_reach_the_next(tmp_path: Path) -> None:
    load(toml(tmp_path, "[server]\nport = 1001\n"))
    assert load().server.port == 8080


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ({"server": {"port": 70000}}, "server.port"),
        ({"server": {"port": "http"}}, "server.port"),
        ({"server": {"prt": 1}}, "server.prt"),
        ({"servr": {"port": 1}}, "servr"),
        ({"barge_in": {"on_onset": "shout"}}, "barge_in.on_onset"),
        ({"turn": {"onset_ms": -1}}, "turn.onset_ms"),
        ({"turn": {"voice_threshold": 1.0}}, "turn.voice_threshold"),
        ({"log_level": "loud"}, "log_level"),
        ({"server": {"event_depth_max": 5000}}, "server.event_depth_max"),
        ({"server": {"tls_days": 30}}, "tls_renew_days"),
        ({"threads": 0}, "threads"),
    ],
)
def test_a_bad_value_is_named(flags: dict[str, Any], names: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(**flags)
    assert names in str(refused.value)


def test_every_bad_value_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        load(server={"port": -1}, threads=0)
    assert "server.port" in str(refused.value)
    assert "threads" in str(refused.value)


@pytest.mark.parametrize("text", ["[server\n", "[server]\nport = 'x'\n", "[nothing]\na = 1\n", "server = 1\n"])
def test_a_bad_file_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="bad configuration"):
        load(toml(tmp_path, text))


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"duplex\.toml is not TOML: .*line 2"):
        load(toml(tmp_path, "[server]\nport = = 1\n"))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"not found: .*none\.toml"):
        load(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("name", "value"),
    [("DUPLEX_SERVR__PORT", "1"), ("DUPLEX_SERVER__PRT", "1"), ("DUPLEX_SERVER__CORS_ORIGINS", "not json")],
)
def test_a_bad_environment_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError):
        load()


def test_settings_are_frozen() -> None:
    settings = load()
    with pytest.raises(ValidationError):
        settings.server.port = 1  # type: ignore[misc]
    with pytest.raises(ValidationError):
        settings.threads = 1  # type: ignore[misc]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("configuration_page", DOCS / "configuration.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_the_settings_is_fresh(generator: ModuleType) -> None:
    assert generator.PAGE.read_text() == generator.render(), "run: python docs/configuration.py"


def test_every_setting_is_described(generator: ModuleType) -> None:
    for section, model in generator.sections().items():
        for name, words in generator.words_of(model).items():
            assert words, f"{section}.{name} has no words"


def test_a_reserve_that_could_not_be_kept_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"scheduling\.spare_lead_ms: at most pacing\.generated_ms_max − 5000 = 5000"):
        load(pacing={"generated_ms_max": 10_000})
    assert (
        load(pacing={"generated_ms_max": 10_000}, scheduling={"spare_lead_ms": 5000}).scheduling.spare_lead_ms == 5000
    )
