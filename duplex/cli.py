"""The `duplex` command."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console

import duplex
from duplex import doctor, replay
from duplex.actor.host import SessionHost
from duplex.client_key import read_key
from duplex.config import ConfigError, Settings, load
from duplex.media.candidates import is_loopback
from duplex.pacing.policies import make_policy
from duplex.ready import why_not_ready
from duplex.server.keys import load_keys
from duplex.server.serve import serve
from duplex.server.tls import open_tls
from duplex.stages.contract import ModelPack, PackError
from duplex.talk import Talk, TalkError, TalkOptions, read_recording, talk_to, write_recording
from duplex.telemetry import Observer, configure_logging
from duplex.telemetry.hub import Telemetry
from duplex.telemetry.recording import RecordingError, open_recorder
from duplex.telemetry.setup import ProcessClock, open_exporter
from duplex.trace import TraceError, describe, list_sessions, trace_to_file

FAILED = 1
USAGE = 2
_PACKS = "duplex.models"
_SERVE = """\
Serve live spoken conversations over WebRTC and WebSocket, with a page to try them.

Settings come from flags, then the environment (DUPLEX_SERVER__PORT=9000), then the file of --config (TOML), then the
defaults; docs/configuration.md lists all of them. Prints `ready URL` on standard output once it serves."""
_IN_THE_CLEAR = (
    "duplex: this is plain HTTP on an address that others reach: keys travel in the clear, and browsers give pages no "
    "microphone, unless a proxy in front speaks TLS; --tls makes a certificate"
)
_TALK = """\
Speak an audio file to a running server over WebRTC at real time, and hear the answer.

Prints both transcripts and the latency: the server's own split, and the time from the end of the speech in the file to
the first audible sample at this client."""

_TRACE = """\
Write what happened in one session, live or ended a moment ago, as a file for ui.perfetto.dev: what was heard, said, sent and
played, every cut, and each stage's queue and compute.

A session's id is the last part of a call's Location (rtc_…), or stands in session.created (sess_…). Without one, the sessions
of a server on this machine are listed."""

_REPLAY = """\
Run a recorded session again (recording.directory keeps them; docs/recording.md): its core is told what it was told then, and has
to ask for the same. Nothing is loaded and nothing is sent.

Exits with 0 if all is the same, with 1 at the first difference, with 2 if the file cannot be run. One that breaks off is run as
far as it goes."""

_DOCTOR = """\
Look at what a server needs on this machine (Python, ports, codecs, the model, the page, who can reach it), and say what to do
about what is missing. Exits with 1 if a conversation would not work.

With --turn, a TURN server is asked for a relay; its user and password are taken from TURN_USERNAME and TURN_PASSWORD."""


_READY = """\
Ask the server of this configuration, on this machine, whether it can serve: the flags, environment and file are those of
`duplex serve`. Exits with 0 if it can and 1 if not; for health checks."""
_KEY_HELP = "file that holds the server's API key alone (default: the environment's DUPLEX_API_KEY)"


class _UsageError(Exception):
    """A flag's value is wrong."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        Exit status: 0 done, 1 failed, 2 wrong usage or configuration.
    """
    options = _parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except (ConfigError, _UsageError) as error:
        _complain(str(error))
        return USAGE
    except (PackError, TalkError, TraceError, OSError) as error:
        _complain(str(error))
        return FAILED
    except (asyncio.CancelledError, KeyboardInterrupt):
        return FAILED


def _complain(message: str) -> None:
    print(f"duplex: {message}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="duplex", description=duplex.__doc__)
    parser.add_argument("--version", action="version", version=f"duplex {duplex.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("serve", help="run the server", description=_SERVE, formatter_class=raw)
    _add_settings(command)
    command.set_defaults(run=_run_serve)
    command = commands.add_parser("doctor", help="look for what is missing", description=_DOCTOR, formatter_class=raw)
    _add_settings(command)
    command.add_argument("--turn", metavar="URL", help="also ask this TURN server: turn:HOST[:PORT][?transport=tcp]")
    command.add_argument("--json", action="store_true", help="print a JSON list instead of lines")
    command.set_defaults(run=_run_doctor)
    command = commands.add_parser(
        "ready", help="ask whether a server can serve", description=_READY, formatter_class=raw
    )
    _add_settings(command)
    command.add_argument(
        "--timeout", type=float, default=4.0, metavar="SECONDS", help="longest wait (default %(default)s)"
    )
    command.set_defaults(run=_run_ready)
    command = commands.add_parser("talk", help="speak a file to a server", description=_TALK, formatter_class=raw)
    command.add_argument("recording", type=Path, metavar="FILE.wav", help="what to say; any common audio format")
    command.add_argument("--url", default="http://127.0.0.1:8080", help="the server (default %(default)s)")
    command.add_argument("--key-file", type=Path, metavar="FILE", help=_KEY_HELP)
    command.add_argument("--out", type=Path, metavar="ANSWER.wav", help="write what was heard, on the file's timeline")
    command.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    command.add_argument(
        "--speech-end", type=float, metavar="SECONDS", help="where the speech in the file ends (default: its energy)"
    )
    command.add_argument(
        "--timeout", type=float, default=60.0, metavar="SECONDS", help="longest wait for the answer (default 60)"
    )
    command.set_defaults(run=_run_talk)
    command = commands.add_parser("trace", help="write a session's timeline", description=_TRACE, formatter_class=raw)
    command.add_argument("session", nargs="?", metavar="SESSION", help="the session's id; none: list the sessions")
    command.add_argument("--url", default="http://127.0.0.1:8080", help="the server (default %(default)s)")
    command.add_argument("--key-file", type=Path, metavar="FILE", help=_KEY_HELP)
    command.add_argument("--out", type=Path, metavar="FILE", help="where to write it (default: as the server names it)")
    command.set_defaults(run=_run_trace)
    command = commands.add_parser("replay", help="run a recording again", description=_REPLAY, formatter_class=raw)
    command.add_argument("recording", type=Path, metavar="FILE", help="what recording.directory keeps of a session")
    command.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    command.add_argument(
        "--force", action="store_true", help="run one of another schema, or whose settings were changed in the file"
    )
    command.set_defaults(run=_run_replay)
    return parser


def _add_settings(command: argparse.ArgumentParser) -> None:
    command.add_argument("--host", help="address to bind (default 127.0.0.1)")
    command.add_argument("--port", type=int, help="TCP port (default 8080); 0 takes a free one")
    command.add_argument(
        "--tls", action="store_true", default=None, help="serve HTTPS; self-signed unless server.tls_certificate is set"
    )
    command.add_argument("--model", metavar="PACK", help="model pack (default local)")
    command.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML")
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        dest="assignments",
        help="one setting, e.g. barge_in.on_onset=hold; VALUE is JSON or plain text; may be repeated",
    )


# serve. -------------------------------------------------------------------------------------------------------------


def _run_serve(options: argparse.Namespace) -> int:
    settings = load(options.config, **_flags(options))
    configure_logging(settings.log_level)
    try:
        make_policy(settings.scheduling, settings.pacing)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    load_keys(settings.server)  # a refusal is told before anything is loaded
    tls = open_tls(settings.server, os.environ, datetime.now(UTC))
    observer = Observer()
    with _progress() as tell:
        tell(f"model pack {settings.model.pack}")
        pack = load_pack(settings)
        clock = ProcessClock()
        exporter = open_exporter(settings.telemetry, os.environ, pack.name, clock)
        telemetry = Telemetry(settings.telemetry, observer, clock, None if exporter is None else exporter.export)
        recorder = open_recorder(settings, pack, observer.record)

        def make_host() -> SessionHost:
            return SessionHost(settings, pack, observer.record, telemetry, recorder)

        def ready(url: str) -> None:
            tell("")
            if tls is not None:
                print(f"certificate SHA-256 {tls.fingerprint}", file=sys.stderr)
            elif not is_loopback(settings.server.host):
                print(_IN_THE_CLEAR, file=sys.stderr)
            print(f"ready {url}", flush=True)

        try:
            uvloop.run(
                serve(make_host, settings.server, observer, progress=tell, ready=ready, telemetry=telemetry, tls=tls)
            )
        finally:
            if recorder is not None:
                recorder.close()
            if exporter is not None:
                exporter.close()
    return 0


def _flags(options: argparse.Namespace) -> dict[str, Any]:
    """Return the flags as nested settings.

    Raises:
        _UsageError: an assignment is not SECTION.KEY=VALUE.
    """
    flags: dict[str, Any] = {}
    for assignment in options.assignments:
        path, equals, value = assignment.partition("=")
        if not equals or not all(path.split(".")):
            raise _UsageError(f"--set takes SECTION.KEY=VALUE, not: {assignment}")
        _assign(flags, path.split("."), _value(value))
    named = {
        "server.host": options.host, "server.port": options.port, "server.tls": options.tls, "model.pack": options.model,
    }  # fmt: skip
    for path, value in named.items():
        if value is not None:
            _assign(flags, path.split("."), value)
    return flags


def _assign(tree: dict[str, Any], path: list[str], value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
        if not isinstance(tree, dict):
            raise _UsageError(f"--set {'.'.join(path)}: {name} has a value already")
    tree[path[-1]] = value


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def load_pack(settings: Settings) -> ModelPack:
    """Make the configured model pack; nothing is loaded yet.

    Raises:
        ConfigError: there is no such pack, or one of its options is wrong.
        PackError: it needs a package that is not installed.
    """
    name = settings.model.pack
    found = entry_points(group=_PACKS)
    if name not in found.names:
        raise ConfigError(f"no model pack '{name}'; installed: {', '.join(sorted(found.names)) or 'none'}")
    try:
        create = found[name].load()
    except ImportError as error:
        raise PackError(f"model pack '{name}' needs a package that is not installed: {error}") from error
    threads = settings.threads or os.cpu_count() or 1
    try:
        pack: ModelPack = create(dict(settings.model.options), threads)
    except PackError as error:
        raise ConfigError(str(error)) from error
    return pack


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show what is being done on standard error: one moving line on a terminal, plain lines elsewhere."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield lambda line: console.print(f"loading: {line}", markup=False) if line else None
        return
    status = console.status("starting")
    status.start()

    def tell(line: str) -> None:
        if line:
            status.update(f"loading: {line}")
        else:
            status.stop()

    try:
        yield tell
    finally:
        status.stop()


# doctor. ------------------------------------------------------------------------------------------------------------


def _run_doctor(options: argparse.Namespace) -> int:
    settings = load(options.config, **_flags(options))
    configure_logging("error")  # what is worth knowing is a finding
    findings = doctor.examine(settings, lambda: load_pack(settings), options.turn)
    print(doctor.to_json(findings) if options.json else doctor.describe(findings))
    return FAILED if any(finding.level is doctor.Level.BAD for finding in findings) else 0


# ready. -------------------------------------------------------------------------------------------------------------


def _run_ready(options: argparse.Namespace) -> int:
    reason = why_not_ready(load(options.config, **_flags(options)).server, options.timeout)
    if reason is not None:
        _complain(reason)
    return 0 if reason is None else FAILED


# talk. --------------------------------------------------------------------------------------------------------------


def _run_talk(options: argparse.Namespace) -> int:
    asked = TalkOptions(
        recording=read_recording(options.recording),
        url=options.url,
        key=read_key(options.key_file, os.environ),
        speech_end_s=options.speech_end,
        timeout_s=options.timeout,
    )
    silent: Callable[[str], None] = lambda line: None  # noqa: E731
    talk = asyncio.run(talk_to(asked, silent if options.json else print))
    if options.out is not None:
        write_recording(options.out, talk.heard)
    print(talk.to_json() if options.json else _summary(talk))
    return 0 if talk.status == "completed" else FAILED


def _summary(talk: Talk) -> str:
    lines = [f"answer: {talk.answer.strip()}", f"status: {talk.status}"]
    lines += [f"error:  {error}" for error in talk.errors]
    heard = "nothing was heard" if talk.ttfas_heard_s is None else f"{talk.ttfas_heard_s * 1000:.0f} ms"
    lines.append(f"time to first audio, heard here, from the end of speech at {talk.speech_end_s:.2f} s: {heard}")
    if talk.split:
        parts = ", ".join(f"{name} {seconds * 1000:.0f}" for name, seconds in talk.split.items())
        lines.append(f"the server's split from its own end of speech, ms: {parts}")
    return "\n".join(lines)


# trace. -------------------------------------------------------------------------------------------------------------


def _run_trace(options: argparse.Namespace) -> int:
    key = read_key(options.key_file, os.environ)
    if options.session is None:
        print(describe(asyncio.run(list_sessions(options.url, key))))
    else:
        print(f"{trace_to_file(options.url, options.session, options.out, key)}: open it at ui.perfetto.dev")
    return 0


# replay. ------------------------------------------------------------------------------------------------------------


def _run_replay(options: argparse.Namespace) -> int:
    try:
        result = replay.replay(options.recording, options.force)
    except (RecordingError, OSError) as error:
        _complain(f"{options.recording}: {error}")
        return USAGE
    print(replay.to_json(result) if options.json else replay.describe(result))
    return 0 if result.same else FAILED


if __name__ == "__main__":
    sys.exit(main())
