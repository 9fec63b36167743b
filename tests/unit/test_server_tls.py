"""The certificate: made where there is none, kept as a secret, renewed in time, and never taken from the wrong files."""

from __future__ import annotations

import ipaddress
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from duplex.config import ConfigError, ServerSettings, load
from duplex.server.tls import cache_dir, make_certificate, names_of, open_tls

pytestmark = pytest.mark.unit

NOW = datetime(2030, 1, 1, tzinfo=UTC)
FILE = "self-signed.pem"


def settings(folder: Path, **values: object) -> ServerSettings:
    return ServerSettings.model_validate({"tls": True, "tls_dir": folder, **values})


def test_tls_is_off_by_default() -> None:
    assert open_tls(ServerSettings(), {}, NOW) is None


def test_a_certificate_is_made_and_kept_to_its_owner(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "cache"
    tls = open_tls(settings(folder), {}, NOW)
    assert tls is not None
    assert tls.self_signed == folder / FILE
    assert stat.S_IMODE((folder / FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in folder.iterdir()] == [FILE]
    certificate = x509.load_pem_x509_certificate((folder / FILE).read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "localhost" in names.get_values_for_type(x509.DNSName)
    assert ipaddress.ip_address("127.0.0.1") in names.get_values_for_type(x509.IPAddress)
    assert len(tls.fingerprint.split(":")) == 32


def test_the_same_one_is_served_until_it_is_about_to_expire(tmp_path: Path) -> None:
    def fingerprint(after_days: int, **values: object) -> str:
        tls = open_tls(settings(tmp_path, **values), {}, NOW + timedelta(days=after_days))
        assert tls is not None
        return tls.fingerprint

    first = fingerprint(0)
    assert fingerprint(300) == first
    renewed = fingerprint(340)
    assert renewed != first
    assert fingerprint(340, host="127.0.0.7") != renewed, "an address that the certificate does not name"


def test_how_long_it_is_valid_and_when_it_is_renewed_is_configured(tmp_path: Path) -> None:
    values = {"tls_days": 10, "tls_renew_days": 4}
    open_tls(settings(tmp_path, **values), {}, NOW)
    first = (tmp_path / FILE).read_bytes()
    assert x509.load_pem_x509_certificate(first).not_valid_after_utc == NOW + timedelta(days=10)
    open_tls(settings(tmp_path, **values), {}, NOW + timedelta(days=5))
    assert (tmp_path / FILE).read_bytes() == first
    open_tls(settings(tmp_path, **values), {}, NOW + timedelta(days=7))
    assert (tmp_path / FILE).read_bytes() != first


def test_a_file_that_is_none_is_replaced(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("rubbish")
    (tmp_path / FILE).chmod(0o644)
    assert open_tls(settings(tmp_path), {}, NOW) is not None
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


def test_a_server_that_listens_everywhere_names_all_addresses_of_the_machine() -> None:
    names = names_of("0.0.0.0")
    assert {"localhost", "127.0.0.1"} < set(names)
    assert "0.0.0.0" not in names
    assert names_of("192.0.2.1") == ("127.0.0.1", "192.0.2.1", "::1", "localhost")


def test_the_users_cache_is_where_the_system_says(tmp_path: Path) -> None:
    assert cache_dir({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "duplex"
    assert cache_dir({"XDG_CACHE_HOME": "relative"}) == cache_dir({}) == Path.home() / ".cache" / "duplex"


def test_an_own_certificate_is_taken_as_it_is(tmp_path: Path) -> None:
    own = tmp_path / "own.pem"
    own.write_bytes(make_certificate(["voice.example"], NOW, 365))
    tls = open_tls(ServerSettings(tls_certificate=own, tls_key=own, tls_dir=tmp_path / "unused"), {}, NOW)
    assert tls is not None
    assert tls.self_signed is None
    assert not (tmp_path / "unused").exists()


@pytest.mark.parametrize("content", [None, b"rubbish"])
def test_an_own_certificate_that_is_none_stops_the_start(tmp_path: Path, content: bytes | None) -> None:
    own = tmp_path / "own.pem"
    if content is not None:
        own.write_bytes(content)
    with pytest.raises(ConfigError, match=r"server\.tls_certificate"):
        open_tls(ServerSettings(tls_certificate=own, tls_key=own), {}, NOW)


def test_the_key_of_another_certificate_stops_the_start(tmp_path: Path) -> None:
    for name in ("a.pem", "b.pem"):
        (tmp_path / name).write_bytes(make_certificate(["localhost"], NOW, 365))
    with pytest.raises(ConfigError, match=r"server\.tls_key"):
        open_tls(ServerSettings(tls_certificate=tmp_path / "a.pem", tls_key=tmp_path / "b.pem"), {}, NOW)


def test_a_folder_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"server\.tls_dir"):
        open_tls(settings(tmp_path / "file" / "below"), {}, NOW)


def test_a_host_that_no_certificate_can_name_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"server\.host"):
        open_tls(settings(tmp_path, host="x" * 64), {}, NOW)


def test_a_certificate_needs_its_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="need each other"):
        load(server={"tls_certificate": str(tmp_path)})
