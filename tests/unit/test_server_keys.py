"""API keys, client secrets and addresses behind proxies: what is taken, what is refused, what is never shown."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any

import pytest

from duplex.config import ConfigError, ServerSettings, load
from duplex.media.candidates import is_loopback
from duplex.server.addresses import bucket_name, client_address
from duplex.server.client_secrets import ClientSecrets, Grant, TooManySecretsError, merge
from duplex.server.keys import load_keys

pytestmark = pytest.mark.unit

KEY = "key-0123456789abcdef"
OTHER = "key-fedcba9876543210"


def test_a_key_is_known_by_its_name() -> None:
    keys = load_keys(ServerSettings(api_keys={"app": KEY, "other": OTHER}))
    assert keys
    assert (keys.name_of(KEY), keys.name_of(OTHER)) == ("app", "other")
    assert [keys.name_of(wrong) for wrong in ("", KEY[:-1], KEY + "x", "é" * 20, "\udcff")] == [None] * 5


def test_without_keys_nothing_is_known() -> None:
    keys = load_keys(ServerSettings())
    assert not keys
    assert keys.name_of("") is None


def test_keys_come_from_a_file_too(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# who may\n\napp = {KEY}\n")
    keys = load_keys(ServerSettings(api_keys={"other": OTHER}, api_keys_file=file))
    assert (keys.name_of(KEY), keys.name_of(OTHER)) == ("app", "other")


def test_keys_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUPLEX_SERVER__API_KEYS", f'{{"app": "{KEY}"}}')
    assert load_keys(load().server).name_of(KEY) == "app"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read"),
        (b"", "has no key"),
        (b"\xff", "not UTF-8"),
        (b"app " + KEY.encode(), "line 1: it takes name=key"),
        (b"app=" + KEY.encode() + b"\napp=" + OTHER.encode(), "twice"),
    ],
)
def test_a_bad_file_stops_the_start_and_is_not_quoted(tmp_path: Path, content: bytes | None, says: str) -> None:
    file = tmp_path / "keys"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=says) as refused:
        load_keys(ServerSettings(api_keys_file=file))
    assert KEY not in str(refused.value)


def test_a_file_over_its_bound_stops_the_start_and_no_key_is_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"app={KEY}\n" * 10)
    with pytest.raises(ConfigError, match="larger than 64 bytes"):
        load_keys(ServerSettings(api_keys_file=file, api_keys_file_bytes_max=64))


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"app": "short"}, "16 printable"),
        ({"app": "key with a space in it"}, "16 printable"),
        ({"app": "ek_0123456789abcdef0"}, "begins with ek_"),
        ({"no name": KEY}, "a name has"),
        ({"a": KEY, "b": KEY}, "two names"),
    ],
)
def test_a_bad_key_stops_the_start_and_is_not_quoted(keys: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        load_keys(ServerSettings(api_keys=keys))
    assert not any(secret in str(refused.value) for secret in keys.values())


def test_a_key_is_never_shown_by_its_settings() -> None:
    settings = load(server={"api_keys": {"app": KEY}})
    assert KEY not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"


def test_a_key_of_the_wrong_kind_is_not_quoted() -> None:
    with pytest.raises(ConfigError, match="server.api_keys") as refused:
        load(server={"api_keys": [KEY]})
    assert KEY not in str(refused.value)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "voice.example"])
def test_a_server_that_others_reach_needs_a_key(host: str) -> None:
    with pytest.raises(ConfigError, match=r"server\.api_keys.*server\.insecure=true"):
        load_keys(ServerSettings(host=host))
    assert not load_keys(ServerSettings(host=host, insecure=True))
    assert load_keys(ServerSettings(host=host, api_keys={"app": KEY}))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_none(host: str) -> None:
    assert is_loopback(host)
    assert not load_keys(ServerSettings(host=host))


# Client secrets. ----------------------------------------------------------------------------------------------------


def grant(expires_at_s: int, key_name: str = "app", **session: Any) -> Grant:
    return Grant(key_name=key_name, expires_at_s=expires_at_s, session=session)


def test_a_secret_lives_until_it_expires() -> None:
    secrets = ClientSecrets(per_key_max=2)
    given = grant(100)
    secrets.add("ek_a", given, 40.0)
    assert secrets.find("ek_a", 99.9) is given
    assert secrets.find("ek_b", 99.9) is None
    assert secrets.find("ek_a", 100.0) is None
    assert secrets.find("ek_a", 99.9) is None


def test_a_key_has_so_many_secrets_and_not_anothers() -> None:
    secrets = ClientSecrets(per_key_max=2)
    secrets.add("ek_a", grant(50), 0.0)
    secrets.add("ek_b", grant(100), 0.0)
    with pytest.raises(TooManySecretsError):
        secrets.add("ek_c", grant(100), 49.0)
    secrets.add("ek_d", grant(100, "other"), 49.0)
    secrets.add("ek_c", grant(100), 50.0)
    assert [secrets.find(f"ek_{name}", 51.0) is not None for name in "abcd"] == [False, True, True, True]


def test_secrets_are_not_kept_in_the_clear() -> None:
    secrets = ClientSecrets(per_key_max=2)
    secrets.add("ek_readable", grant(50), 0.0)
    assert "ek_readable" not in repr(secrets._grants)


def test_what_a_secret_is_bound_to_stands() -> None:
    bound = {"type": "realtime", "instructions": "Ours.", "audio": {"output": {"voice": "low"}}}
    asked = {
        "instructions": "Theirs.",
        "audio": {"output": {"voice": "high", "speed": 1.2}, "input": None},
        "tools": [],
    }
    assert merge(bound, asked) == {
        "type": "realtime", "instructions": "Ours.", "tools": [],
        "audio": {"output": {"voice": "low", "speed": 1.2}, "input": None},
    }  # fmt: skip
    assert merge(bound, None) == bound


# Addresses. ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("peer", "forwarded", "trusted", "client"),
    [
        ("198.51.100.1", ["203.0.113.9"], [], "198.51.100.1"),
        ("198.51.100.1", ["203.0.113.9"], ["10.0.0.0/8"], "198.51.100.1"),
        ("10.0.0.1", ["203.0.113.9"], ["10.0.0.0/8"], "203.0.113.9"),
        ("10.0.0.1", ["6.6.6.6, 203.0.113.9"], ["10.0.0.0/8"], "203.0.113.9"),
        ("10.0.0.1", ["6.6.6.6", "203.0.113.9, 10.0.0.2"], ["10.0.0.0/8"], "203.0.113.9"),
        ("10.0.0.1", ["rubbish"], ["10.0.0.0/8"], "10.0.0.1"),
        ("10.0.0.1", [], ["10.0.0.0/8"], "10.0.0.1"),
        ("::ffff:10.0.0.1", ["2001:db8::1"], ["10.0.0.0/8"], "2001:db8::1"),
        ("fe80::1%eth0", [], [], "fe80::1"),
        (None, ["203.0.113.9"], ["10.0.0.0/8"], "None"),
    ],
)
def test_the_client_is_who_a_trusted_proxy_says(
    peer: str | None, forwarded: list[str], trusted: list[str], client: str
) -> None:
    networks = [ipaddress.ip_network(network) for network in trusted]
    assert str(client_address(peer, forwarded, networks)) == client


def test_an_ipv6_host_is_counted_by_its_network() -> None:
    first, second = (ipaddress.ip_address(f"2001:db8:1:2::{n}") for n in (1, 2))
    assert bucket_name(first) == bucket_name(second) == "2001:db8:1:2::/64"
    assert bucket_name(ipaddress.ip_address("203.0.113.9")) == "203.0.113.9"
