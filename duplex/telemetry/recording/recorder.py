"""Who records sessions: steps are put on the loop, encoded and written by one thread.

The loop only ever appends to a bounded queue. Its overflow rule is `end_recording`: the session whose step does not fit goes
on without a record, and its file ends with a line that says so. The thread comes by every `flush_s`, writes all that waits
and hands it to the operating system, so that a crash of the process costs that much at most.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final, Literal

import structlog

import duplex
from duplex.config import RecordingSettings, Settings
from duplex.payloads import JobId
from duplex.session.config import SessionConfig
from duplex.session.core import SessionCore
from duplex.session.traits import Traits
from duplex.stages.contract import ModelPack
from duplex.telemetry.recording.files import Folder, RecordingFile
from duplex.telemetry.recording.layout import (
    SUFFIX,
    Header,
    code_hash,
    end_line,
    hash_of,
    header_line,
    recorded_settings,
    step_line,
)
from duplex.telemetry.recording.taped import Step, TapedCore
from duplex.units import NS_PER_S, MonoNs

Outcome = Literal["ended", "bytes", "minutes", "overflow", "refused", "failed"]
"""How a recording ended: with its session, at one of its bounds, because the writer was too far behind, or because the disk
or a value refused; `refused`: never begun, since those that are being written leave no room."""
_END_BYTES: Final = 256
"""Kept free in each file for its last line."""
_EXPIRE_EVERY_NS: Final = 60 * NS_PER_S
_log = structlog.get_logger("duplex.recording")
_Observe = Callable[[str, float, Mapping[str, str]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackName:
    """Which model a session talked to."""

    name: str
    hash: str
    """Of its stages, voices and options."""

    @classmethod
    def of(cls, pack: ModelPack, options: Mapping[str, object]) -> PackName:
        """Return a pack's; of its options only the hash is kept."""
        nodes = [repr(stage.spec) for stage in pack.stages]
        return cls(name=pack.name, hash=hash_of([pack.name, nodes, pack.voices, pack.tick_ms, repr(dict(options))]))


class _Session:
    """A session under record. The loop makes it; `over` is set by whoever ends it first, the rest is the thread's."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.over: Outcome | None = None
        self.core: TapedCore | None = None
        self.file: RecordingFile | None = None
        self.steps = 0
        self.began_at: MonoNs | None = None


class Recorder:
    """Records the sessions of a process. Made, and told of sessions, on the loop's thread.

    Args:
        settings: bounds; `directory` is set.
        pack: what the sessions talk to.
        observe: takes the measure of how recordings end; called on the writing thread too.
        unix_ns: the time of day.
        seed: gives a fresh seed.
    Raises:
        ConfigError: the folder is not fit for it.
    """

    def __init__(
        self, settings: RecordingSettings, pack: PackName, observe: _Observe,
        unix_ns: Callable[[], int] = time.time_ns, seed: Callable[[], str] = lambda: os.urandom(16).hex(),
    ) -> None:  # fmt: skip
        self._settings = settings
        self._pack = pack
        self._observe = observe
        self._unix_ns = unix_ns
        self._seed = seed
        self._code = code_hash()
        self._folder = Folder(settings)
        self._expired_at = 0
        self._waiting: deque[tuple[_Session, Step | Outcome]] = deque()
        self._live: dict[str, _Session] = {}
        """By id, those whose end was not told yet; the loop's."""
        self._writing: set[_Session] = set()
        """Those with an open file; the thread's."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    # On the loop. ---------------------------------------------------------------------------------------------------

    def core(
        self, session: str, config: SessionConfig, settings: Settings, traits: Traits, new_id: Callable[[str], str],
        next_job: Callable[[], JobId],
    ) -> SessionCore:  # fmt: skip
        """Return the core of a new session, under record; its ids come from a seed of its own instead of `new_id`."""
        written = recorded_settings(settings)
        header = Header(
            session=session, version=duplex.__version__, code=self._code, pack=self._pack.name,
            pack_hash=self._pack.hash, settings=written, settings_hash=hash_of(written), traits=traits, config=config,
            seed=self._seed(), began_unix_ns=self._unix_ns(),
        )  # fmt: skip
        recorded = self._live[session] = _Session(header)
        recorded.core = TapedCore(
            session, config, settings, traits, next_job, seed=header.seed, put=lambda step: self._put(recorded, step)
        )
        return recorded.core

    def ended(self, session_id: str) -> None:
        """A session has given everything back; one that was not recorded is ignored."""
        session = self._live.pop(session_id, None)
        if session is None:
            return
        assert session.core is not None
        session.core.break_off()
        self._end(session, "ended")

    def close(self) -> None:
        """End what is being recorded, and write all that waits; blocks for as long as that takes, within its bound."""
        for session_id in list(self._live):
            self.ended(session_id)
        self._closing.set()
        self._thread.join(self._settings.close_timeout_s)
        if self._thread.is_alive():
            _log.error("recordings_lost", steps=len(self._waiting))

    def _put(self, session: _Session, step: Step) -> None:
        if session.over is not None:
            return
        if len(self._waiting) < self._settings.waiting_steps_max:
            self._waiting.append((session, step))
        else:
            self._end(session, "overflow")

    def _end(self, session: _Session, outcome: Outcome) -> None:
        """Put the end behind all steps of the session: one entry more than the bound, for each session at most."""
        if session.over is None:
            session.over = outcome
            self._waiting.append((session, outcome))

    # On the thread. -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        closing = False
        while not closing:
            closing = self._closing.wait(self._settings.flush_s)
            self._write_waiting()
            for session in list(self._writing):
                self._guard(session, _open_file(session).flush)
            self._expire()

    def _write_waiting(self) -> None:
        while self._waiting:
            session, what = self._waiting.popleft()
            if isinstance(what, Step):
                if session.over not in ("refused", "bytes", "minutes", "failed"):
                    self._guard(session, partial(self._write, session, what))
            else:
                self._guard(session, partial(self._finish, session, what))
            time.sleep(0)  # the loop's thread may want the interpreter

    def _write(self, session: _Session, step: Step) -> None:
        if session.file is None and not self._open(session):
            return
        if session.began_at is None:
            session.began_at = step.at
        if step.at - session.began_at > self._settings.session_minutes_max * 60 * NS_PER_S:
            self._stop(session, "minutes")
        elif _open_file(session).write(step_line(step, self._settings.voice)):
            session.steps += 1
        else:
            self._stop(session, "bytes")

    def _open(self, session: _Session) -> bool:
        live = {_open_file(other).path for other in self._writing}
        if not self._folder.make_room(live, self._unix_ns()):
            session.over = "refused"
            self._tell(session, "refused")
            return False
        began = datetime.fromtimestamp(session.header.began_unix_ns // NS_PER_S, UTC)
        path = self._folder.path / f"{began:%Y%m%dT%H%M%SZ}-{session.header.session}{SUFFIX}"
        session.file = RecordingFile(path, self._settings.session_bytes_max, _END_BYTES)
        self._writing.add(session)
        if session.file.write(header_line(session.header)):
            session.file.flush()
            return True
        self._stop(session, "bytes")
        return False

    def _stop(self, session: _Session, outcome: Outcome) -> None:
        """A bound is reached: the loop puts nothing more, and what waits is left out."""
        session.over = outcome
        self._finish(session, outcome)

    def _finish(self, session: _Session, outcome: Outcome) -> None:
        if session.file is None:  # ended before its first step was taken
            return
        session.file.last(end_line(outcome, session.steps))
        self._writing.discard(session)
        session.file = None
        self._tell(session, outcome)

    def _guard(self, session: _Session, act: Callable[[], None]) -> None:
        """Do something for one session; what goes wrong ends its recording and nothing else."""
        try:
            act()
        except Exception as error:  # noqa: BLE001 - an observer's root: the conversation goes on without it
            session.over = "failed"
            file, session.file = session.file, None
            self._writing.discard(session)
            _log.error("recording_failed", session_id=session.header.session, error=type(error).__name__)
            self._tell(session, "failed")
            if file is not None:
                _close_broken(file)

    def _tell(self, session: _Session, outcome: Outcome) -> None:
        self._observe("duplex_recordings_total", 1, {"outcome": outcome})
        _log.info("recording_ended", session_id=session.header.session, outcome=outcome, steps=session.steps)

    def _expire(self) -> None:
        now = self._unix_ns()
        if now - self._expired_at < _EXPIRE_EVERY_NS:
            return
        self._expired_at = now
        try:
            self._folder.expire({_open_file(session).path for session in self._writing}, now)
        except OSError as error:
            _log.error("recordings_not_expired", error=str(error))


def _open_file(session: _Session) -> RecordingFile:
    assert session.file is not None, "a session that is written has a file"
    return session.file


def _close_broken(file: RecordingFile) -> None:
    try:
        file.close()
    except OSError as error:  # the disk that refused a write refuses the rest too; what it took can be read
        _log.warning("recording_not_closed", error=str(error))


def open_recorder(
    settings: Settings, pack: ModelPack, observe: _Observe, unix_ns: Callable[[], int] = time.time_ns
) -> Recorder | None:
    """Return what records sessions, where the configuration asks for it; None where it does not.

    Raises:
        ConfigError: the folder is not fit for it.
    """
    if settings.recording.directory is None:
        return None
    return Recorder(settings.recording, PackName.of(pack, settings.model.options), observe, unix_ns)
