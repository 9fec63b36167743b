"""`duplex doctor`: looks at everything a server needs on this machine, and says what to do about what is wrong.

Each check returns findings and raises nothing; they run in the order in which a newcomer would meet the problems. Nothing is
changed on the machine, and nothing leaves it but, where one is named, a request to a TURN server.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import resource
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

import ifaddr
import numpy as np
from aioice import stun, turn

from duplex.config import ConfigError, ServerSettings, Settings
from duplex.media import opus, processing
from duplex.media.candidates import is_loopback
from duplex.media.video import PictureDecoder
from duplex.server.keys import load_keys
from duplex.server.page import page_dir
from duplex.server.tls import cache_dir, open_tls
from duplex.stages.contract import ModelPack, PackError
from duplex.stages.process import isolated
from duplex.telemetry.setup import ProcessClock, open_exporter

_PYTHON_MIN: Final = (3, 11)
_FILES_PER_SESSION: Final = 8
"""Sockets and pipes that one WebRTC session may hold open."""
_SESSIONS_EXPECTED: Final = 50
_CORES_EXPECTED: Final = 2
_MEMORY_EXPECTED: Final = 2 * 1024**3
_OTHERS: Final = 0o077
"""Bits of a mode that let others look into a folder."""
_TURN_PORT: Final = 3478
_TURN_TIMEOUT_S: Final = 5.0


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    HINT = "hint"
    """It works here, and something will be missing for others."""
    BAD = "bad"
    """A conversation will not work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    name: str
    level: Level
    seen: str
    advice: str = ""
    """What to do; empty where all is well."""


Check = Callable[[], Iterable[Finding]]


def examine(settings: Settings, make_pack: Callable[[], ModelPack], turn_url: str | None) -> list[Finding]:
    """Look at everything.

    Args:
        settings: the server's.
        make_pack: makes the configured pack; it is loaded and closed here.
        turn_url: `turn:HOST[:PORT][?transport=tcp]` with user and password in TURN_USERNAME and TURN_PASSWORD; None: not asked for.
    """
    checks: list[Check] = [
        machine,
        lambda: port(settings.server.host, settings.server.port),
        udp,
        lambda: reach(settings.server),
        lambda: codecs(settings),
        lambda: page(settings.server.page_dir),
        lambda: kept(settings),
        lambda: extras(settings),
        lambda: model(lambda: isolated(make_pack(), settings.stages)),
    ]
    if turn_url is not None:
        checks.append(lambda: [asyncio.run(turn_server(turn_url, os.environ))])
    return [finding for check in checks for finding in check()]


def describe(findings: Sequence[Finding]) -> str:
    """Return the findings as lines, and under them what to do."""
    marks = {Level.OK: "ok  ", Level.HINT: "hint", Level.BAD: "BAD "}
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{marks[finding.level]}  {finding.name:<{width}}  {finding.seen}")
        if finding.advice:
            lines.append(f"      {'':<{width}}  → {finding.advice}")
    bad = sum(finding.level is Level.BAD for finding in findings)
    lines.append("all is well" if not bad else f"{bad} thing{'s' if bad > 1 else ''} to mend")
    return "\n".join(lines)


def to_json(findings: Sequence[Finding]) -> str:
    """Return the findings as a JSON list."""
    return json.dumps([asdict(finding) for finding in findings], indent=2)


# The machine. -------------------------------------------------------------------------------------------------------


def machine() -> Iterable[Finding]:
    """Look at Python, cores, memory and open files."""
    version = sys.version_info
    fits = version >= _PYTHON_MIN
    yield Finding(
        name="python", level=Level.OK if fits else Level.BAD, seen=".".join(map(str, version[:3])),
        advice="" if fits else f"install Python {_PYTHON_MIN[0]}.{_PYTHON_MIN[1]} or newer",
    )  # fmt: skip
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    yield Finding(
        name="cores", level=Level.OK if cores >= _CORES_EXPECTED else Level.HINT, seen=f"{cores} usable",
        advice="" if cores >= _CORES_EXPECTED else "the default models want two cores; answers will be late, or use `--model sim` to try",
    )  # fmt: skip
    memory = _free_memory()
    if memory is not None:
        fits = memory >= _MEMORY_EXPECTED
        yield Finding(
            name="memory", level=Level.OK if fits else Level.HINT, seen=f"{memory / 1024**3:.1f} GiB free",
            advice="" if fits else "the default models take about 0.8 GiB, and loading them more for a moment",
        )  # fmt: skip
    yield from _open_files()


def _free_memory() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = next((line for line in lines if line.startswith("MemAvailable:")), None)
    return int(found.split()[1]) * 1024 if found is not None else None


def _open_files() -> Iterable[Finding]:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    carried = limit // _FILES_PER_SESSION
    fits = limit == resource.RLIM_INFINITY or carried >= _SESSIONS_EXPECTED
    yield Finding(
        name="open files", level=Level.OK if fits else Level.HINT, seen=f"{limit} allowed",
        advice="" if fits else f"enough for about {carried} sessions: raise it with `ulimit -n 4096`",
    )  # fmt: skip


# The network. -------------------------------------------------------------------------------------------------------


def port(host: str, number: int) -> Iterable[Finding]:
    """Look whether the server's address can be bound."""
    name = f"{host}:{number}"
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, number, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except socket.gaierror:
        yield Finding(
            name="port",
            level=Level.BAD,
            seen=f"{host} is no address",
            advice="set server.host to an address of this machine",
        )
    except OSError as error:
        yield Finding(
            name="port",
            level=Level.BAD,
            seen=f"{name}: {os.strerror(error.errno or 0)}",
            advice=_bind_advice(error, number),
        )
    else:
        yield Finding(name="port", level=Level.OK, seen=f"{name} is free")


def _bind_advice(error: OSError, number: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"something listens there (`ss -ltnp 'sport = :{number}'`): stop it, or `--port 0` for a free port"
        case errno.EACCES:
            return "ports below 1024 need permission: take a higher one behind a proxy"
        case errno.EADDRNOTAVAIL:
            return "this machine has no such address: set server.host to one of its own, or 127.0.0.1"
        case _:
            return "set server.host and server.port to something that can be bound"


def udp() -> Iterable[Finding]:
    """Look whether media can flow at all: a datagram to ourselves."""
    try:
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as two,
        ):
            one.bind(("127.0.0.1", 0))
            one.settimeout(1.0)
            two.sendto(b"duplex", one.getsockname())
            one.recv(16)
    except OSError as error:
        yield Finding(
            name="udp", level=Level.BAD, seen=str(error),
            advice="WebRTC media are UDP: allow it in the sandbox or firewall; the WebSocket works without",
        )  # fmt: skip
    else:
        yield Finding(name="udp", level=Level.OK, seen="datagrams arrive")


def reach(server: ServerSettings) -> Iterable[Finding]:
    """Say who can reach the server, with what right, and what browsers there will not give it."""
    others = [str(ip.ip) for adapter in ifaddr.get_adapters() for ip in adapter.ips if ip.is_IPv4]
    others = [address for address in others if not ip_address(address).is_loopback]
    if is_loopback(server.host):
        yield Finding(
            name="reach", level=Level.HINT if others else Level.OK, seen="this machine alone",
            advice=f"for a phone: `--host {others[0]} --tls`, and a key (docs/security.md)" if others else "",
        )  # fmt: skip
    else:
        yield Finding(
            name="reach", level=Level.OK, seen=f"others, at {', '.join(others) or 'no address that was found'}"
        )
    try:
        keys = load_keys(server)
    except ConfigError as error:
        advice = "set server.api_keys_file, or server.insecure = true where everybody may use it"
        yield Finding(name="keys", level=Level.BAD, seen=str(error), advice=advice)
    else:
        yield Finding(
            name="keys", level=Level.OK, seen="wanted of everybody" if keys else "none: whoever reaches it may use it"
        )
    encrypted = server.tls or server.tls_certificate is not None
    if encrypted or is_loopback(server.host):
        yield Finding(
            name="microphone", level=Level.OK, seen="HTTPS" if encrypted else "plain HTTP, on this machine alone"
        )
    else:
        yield Finding(
            name="microphone", level=Level.HINT, seen="served over plain HTTP",
            advice="browsers give a page no microphone over plain HTTP but on localhost: `--tls`",
        )  # fmt: skip


async def turn_server(url: str, environment: Mapping[str, str]) -> Finding:
    """Ask a TURN server for an allocation. Cancel: gives it back."""
    try:
        host, number, transport = parse_turn(url)
    except ValueError as error:
        return Finding(
            name="turn", level=Level.BAD, seen=str(error), advice="give it as turn:HOST[:PORT][?transport=tcp]"
        )
    user, password = environment.get("TURN_USERNAME"), environment.get("TURN_PASSWORD")
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        async with asyncio.timeout(_TURN_TIMEOUT_S):
            relay, _ = await turn.create_turn_endpoint(
                asyncio.DatagramProtocol, (host, number), user, password, transport=transport
            )
    except TimeoutError:
        advice = (
            f"no answer in {_TURN_TIMEOUT_S:g} s: is {transport.upper()} to port {number} open, and the server running?"
        )
        return Finding(name="turn", level=Level.BAD, seen=f"{host}:{number} is silent", advice=advice)
    except stun.TransactionFailed as error:
        code = error.response.attributes.get("ERROR-CODE", (0, "refused"))
        advice = (
            "set TURN_USERNAME and TURN_PASSWORD to what the server knows"
            if code[0] in (400, 401, 403, 441)
            else "see the TURN server's log"
        )
        return Finding(name="turn", level=Level.BAD, seen=f"{host}:{number}: {code[0]} {code[1]}", advice=advice)
    except (OSError, stun.TransactionError) as error:
        return Finding(
            name="turn",
            level=Level.BAD,
            seen=f"{host}:{number}: {error or 'no answer'}",
            advice="is the name right, and the server reachable?",
        )
    took_ms = (loop.time() - began) * 1000
    relayed = relay.get_extra_info("sockname")
    relay.close()
    return Finding(name="turn", level=Level.OK, seen=f"{host}:{number} relays at {relayed[0]} ({took_ms:.0f} ms)")


def parse_turn(url: str) -> tuple[str, int, str]:
    """Return host, port and transport of a TURN URL (RFC 7065).

    Raises:
        ValueError: it is none.
    """
    scheme, colon, rest = url.partition(":")
    where, _, query = rest.partition("?")
    host, _, number = where.rpartition(":") if where.rpartition(":")[2].isdigit() else (where, "", "")
    transport = parse_qs(query).get("transport", ["udp"])[0]
    host = host.strip("[]")
    if scheme != "turn" or not colon or not host or transport not in ("udp", "tcp"):
        raise ValueError(f"no TURN URL: {url}")
    return host, int(number or _TURN_PORT), transport


# What is installed. -------------------------------------------------------------------------------------------------


def codecs(settings: Settings) -> Iterable[Finding]:
    """Encode and decode a tone, and make the picture decoders."""
    try:
        media = settings.media
        tone = (8000 * np.sin(np.arange(960) * 2 * np.pi * 440 / 48_000)).astype(np.int16)
        encoder, decoder = opus.Encoder(bitrate=media.opus_bitrate, complexity=media.opus_complexity), opus.Decoder()
        loudest = max(int(np.abs(decoder.decode(encoder.encode(tone))).max()) for _ in range(5))
    except (opus.OpusError, OSError) as error:
        yield Finding(
            name="opus",
            level=Level.BAD,
            seen=str(error),
            advice="install the package again: the library comes with PyAV (`pip install --force-reinstall av`)",
        )
    else:
        heard = loudest > 4000
        yield Finding(
            name="opus",
            level=Level.OK if heard else Level.BAD,
            seen=f"{opus.version()}, a tone {'goes' if heard else 'does not go'} through",
        )
    for codec in ("VP8", "H264"):
        try:
            PictureDecoder(codec, settings.media.video_edge_px_max)
        except (ValueError, OSError) as error:
            yield Finding(name=codec, level=Level.HINT, seen=str(error), advice="cameras that send it will not be seen")
        else:
            yield Finding(name=codec, level=Level.OK, seen="decoder found")


def page(configured: Path | None) -> Iterable[Finding]:
    """Look for the built page."""
    built = (page_dir(configured) / "index.html").is_file()
    yield Finding(
        name="page", level=Level.OK if built else Level.HINT, seen="built" if built else "not built",
        advice="" if built else "`make page` builds it (Node 20); clients do not need it",
    )  # fmt: skip


def kept(settings: Settings) -> Iterable[Finding]:
    """Look at the certificate and the folders that the configuration names; what is not there is not made."""
    server, recordings = settings.server, settings.recording.directory
    if server.tls_certificate is not None:
        try:
            open_tls(server, os.environ, datetime.now(UTC))
        except ConfigError as error:
            advice = "name a PEM certificate and its key, or leave both out and use `--tls`, which makes one"
            yield Finding(name="certificate", level=Level.BAD, seen=str(error), advice=advice)
        else:
            yield Finding(name="certificate", level=Level.OK, seen=f"{server.tls_certificate} and its key")
    elif server.tls:
        yield _folder("certificate", server.tls_dir or cache_dir(os.environ), "server.tls_dir")
    if recordings is not None:
        yield _folder("recordings", recordings, "recording.directory", private=True)


def _folder(name: str, path: Path, setting: str, *, private: bool = False) -> Finding:
    """Look whether a folder is there or can be made, and written."""
    parent = next((folder for folder in (path, *path.absolute().parents) if folder.exists()), Path("/"))
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        advice = f"set {setting} to a folder that this user may write"
        return Finding(name=name, level=Level.BAD, seen=f"{path} cannot be written", advice=advice)
    if private and parent == path and path.stat().st_mode & _OTHERS:
        return Finding(name=name, level=Level.BAD, seen=f"others may look into {path}", advice=f"`chmod 700 {path}`")
    return Finding(name=name, level=Level.OK, seen=f"kept in {path}")


def extras(settings: Settings) -> Iterable[Finding]:
    """Look for the optional packages that the configuration asks for."""
    if settings.media.processing == "apm":
        try:
            processing.load()
        except processing.ProcessingUnavailable as error:
            advice = "install it, or set media.processing to off"
            yield Finding(name="processing", level=Level.BAD, seen=str(error), advice=advice)
        else:
            yield Finding(name="processing", level=Level.OK, seen="echo and noise can be taken out of what is heard")
    try:
        exporter = open_exporter(settings.telemetry, os.environ, settings.model.pack, ProcessClock())
    except ConfigError as error:
        advice = "install it, or name no endpoint"
        yield Finding(name="spans", level=Level.BAD, seen=str(error), advice=advice)
    else:
        if exporter is not None:
            exporter.close()
            yield Finding(name="spans", level=Level.OK, seen="the exporter is installed; its collector is not asked")


def model(make_pack: Callable[[], ModelPack]) -> Iterable[Finding]:
    """Load every stage of the pack, and give it back."""
    try:
        pack = make_pack()
    except (ConfigError, PackError) as error:
        yield Finding(
            name="model", level=Level.BAD, seen=str(error), advice="see docs/models.md for the packs and what they need"
        )
        return
    began = time.perf_counter()
    try:
        for stage in pack.stages:
            stage.load(lambda line: None)
    except (PackError, OSError, MemoryError) as error:
        yield Finding(
            name="model", level=Level.BAD, seen=f"{pack.name}: {error or type(error).__name__}",
            advice="install the packages of requirements/ again: weights are checked against their SHA-256; see docs/models.md",
        )  # fmt: skip
    else:
        seen = f"{pack.name} loads in {time.perf_counter() - began:.1f} s"
        yield Finding(
            name="model",
            level=Level.HINT if pack.test_double else Level.OK,
            seen=seen,
            advice=pack.notice if pack.test_double else "",
        )
    finally:
        for stage in pack.stages:
            stage.close()
