"""TLS: the configured certificate, or one that the server makes, signs itself and keeps.

A self-signed certificate is kept beside its key in one file, readable by its owner only, and made anew when it is about to
expire or when the server is reached at an address that it does not name. Browsers ask once whether to trust it; the
fingerprint that is printed at the start tells whether it is the right one.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import ifaddr
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from duplex.config import ConfigError, ServerSettings

_FILE: Final = "self-signed.pem"
_BACKDATED: Final = timedelta(days=1)
"""For clients whose clock is behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """What the server shows of itself."""

    context: ssl.SSLContext
    fingerprint: str
    """SHA-256 of the certificate, as browsers show it: `AB:CD:…`."""
    self_signed: Path | None
    """Where the certificate is that the server made; None: it was configured."""


def open_tls(settings: ServerSettings, environ: Mapping[str, str], now: datetime) -> Tls | None:
    """Return the certificate to serve with, made where need be; None: TLS is off. Reads and writes files.

    Args:
        environ: says where the user's cache folder is.
        now: time of day, with its zone.
    Raises:
        ConfigError: the certificate or its key is no good, or the folder cannot be written.
    """
    if settings.tls_certificate is not None and settings.tls_key is not None:
        return _load(settings.tls_certificate, settings.tls_key, None)
    if not settings.tls:
        return None
    folder = settings.tls_dir or cache_dir(environ)
    path = folder / _FILE
    names = names_of(settings.host)
    try:
        if not _is_good(path, names, now, settings.tls_renew_days):
            _write_private(path, make_certificate(names, now, settings.tls_days))
    except UnicodeError:
        raise ConfigError(f"server.host: no certificate can be made for {settings.host}") from None
    except OSError as error:
        raise ConfigError(f"server.tls_dir: no certificate can be kept in {folder}: {error.strerror}") from None
    return _load(path, path, path)


def cache_dir(environ: Mapping[str, str]) -> Path:
    """Return where the user's caches are. Source: XDG Base Directory Specification."""
    configured = Path(environ.get("XDG_CACHE_HOME", ""))
    return (configured if configured.is_absolute() else Path.home() / ".cache") / "duplex"


def names_of(host: str) -> tuple[str, ...]:
    """Return the names and addresses at which a server bound to `host` is reached."""
    names = {"localhost", "127.0.0.1", "::1"}
    try:
        unspecified = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        unspecified = False
    if unspecified:
        names |= {socket.gethostname(), *_interface_addresses()}
    else:
        names.add(host)
    return tuple(sorted(name for name in names if name))


def make_certificate(names: Iterable[str], now: datetime, days: int) -> bytes:
    """Return a new P-256 key and its certificate for `names`, valid for so many days, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "duplex, self-signed")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return secret + certificate.public_bytes(serialization.Encoding.PEM)


def _is_good(path: Path, names: Iterable[str], now: datetime, days_min: int) -> bool:
    """Whether the kept certificate names all that it has to, and for more days than the fewest."""
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (FileNotFoundError, ValueError, x509.ExtensionNotFound):
        return False
    fresh = now + timedelta(days=days_min) < certificate.not_valid_after_utc and certificate.not_valid_before_utc <= now
    return fresh and all(_general_name(name) in alternatives for name in names)


def _write_private(path: Path, content: bytes) -> None:
    """Write a file that nobody else could read at any moment, in one step."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        unfinished.unlink()
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    unfinished.replace(path)


def _load(certificate: Path, key: Path, self_signed: Path | None) -> Tls:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # An empty passphrase fails at once where the default would ask on the terminal.
        context.load_cert_chain(certificate, key, password="")
        shown = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        why = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise ConfigError(f"server.tls_certificate, server.tls_key: {certificate} and {key} do not do: {why}") from None
    return Tls(
        context=context, fingerprint=shown.fingerprint(hashes.SHA256()).hex(":").upper(), self_signed=self_signed
    )


def _interface_addresses() -> set[str]:
    found = {ip.ip if isinstance(ip.ip, str) else ip.ip[0] for adapter in ifaddr.get_adapters() for ip in adapter.ips}
    return {address for address in found if not ipaddress.ip_address(address).is_link_local}


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name.encode("idna").decode())
