"""A stage in a process of its own, as any other stage. What kills or stops that process takes nothing else with it.

    loop ──submit, abort, …──► writer thread ──pipe──► child ──► reader thread ──emit──► loop
    stage's thread ──step────► writer thread ──pipe──► child ──► reader thread ──answer─► stage's thread

The reader asks for a sign of life whenever the child has been silent for `heartbeat_s`; more than `heartbeats_missed_max`
unanswered ones, or the end of the pipe, and the child is killed and `on_lost` told. No call here waits for the child but `load` and
`step`, which run on the stage's thread, and both end when `close` kills it. Payloads are pickled; the other end is ours. ADR-0013.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import structlog

from duplex.config import StageSettings
from duplex.payloads import Job, JobId, Payload, StageError
from duplex.stages.contract import (
    Emit,
    Lost,
    ModelPack,
    NodeSpec,
    PackError,
    Progress,
    Role,
    Stage,
    StageGoneError,
    StageMaker,
    StageRaisedError,
    TellLost,
    is_engine,
    is_last,
)
from duplex.stages.process_messages import Call, Emitted, Load, Loaded, Loading, Ping, Pong, Raised, Step, Stepped

_WAITING_MAX = 4096
"""Messages that wait to be sent; overflow rule: the child, which does not read, is taken for hung."""
_WAIT_S = 5.0
"""Time in which the kernel ends a killed process."""
_log = structlog.get_logger("duplex.stages")


class _Process:
    """What both kinds have in common: the child, its pipe, its signs of life."""

    def __init__(self, spec: NodeSpec, maker: StageMaker, settings: StageSettings) -> None:
        self.spec = spec
        self._maker = maker
        self._heartbeat_s = settings.heartbeat_s
        self._missed_max = settings.heartbeats_missed_max
        self._child: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._outbox: queue.Queue[Any] = queue.Queue(_WAITING_MAX)
        self._lock = threading.Lock()
        self._gone = False
        """Lost or closed."""
        self._lost: Lost | None = None
        self._tell_lost: TellLost | None = None

    @property
    def pid(self) -> int | None:
        """Return the child's process id; None before it was started."""
        return None if self._child is None else self._child.pid

    def on_lost(self, tell: TellLost) -> None:
        """Have `tell` called when the child has gone after it had loaded; at once if it has."""
        with self._lock:
            self._tell_lost = tell
            lost = self._lost
        if lost is not None:
            tell(lost)

    def load(self, progress: Progress) -> None:
        """Start the child and wait until it has loaded the stage.

        Raises:
            PackError: it cannot, or ended meanwhile.
        """
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            if self._gone:
                raise PackError(f"{self.spec.name} was closed")
            # Its standard output is ours for errors: what a library prints is no line of the server's.
            self._child = subprocess.Popen(
                [sys.executable, "-m", "duplex.stages.child", str(theirs.fileno())],
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=2,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},  # it finds what we find
            )  # fmt: skip
            pipe = self._pipe = Connection(ours.detach())
        try:
            pipe.send(Load(self._maker))
            while isinstance(message := pipe.recv(), Loading):
                progress(message.line)
        except (EOFError, OSError) as error:
            self.close()
            raise PackError(f"the process of {self.spec.name} ended while it loaded ({self._ending()})") from error
        if isinstance(message, Raised):
            self.close()
            raise PackError(message.message or f"{self.spec.name} cannot be loaded: {message.error}")
        assert isinstance(message, Loaded), "the answer to a load"
        threading.Thread(target=self._write, args=(pipe,), name=f"{self.spec.name}-writer", daemon=True).start()
        threading.Thread(target=self._read, args=(pipe,), name=f"{self.spec.name}-reader", daemon=True).start()

    def release(self, session: str) -> None:
        """Forget a session."""
        self._post(Call("release", session))

    def close(self) -> None:
        """Kill the child; callable from any thread, also while another loads or steps."""
        self._end(None)

    def _post(self, message: Any) -> None:
        """Send a message soon."""
        try:
            self._outbox.put_nowait(message)
        except queue.Full:
            self._end("hang")

    def _end(self, lost: Lost | None) -> None:
        """End the child, once.

        Args:
            lost: why it has gone by itself; None: it is not needed any more.
        """
        with self._lock:
            if self._gone:
                return
            self._gone, self._lost = True, lost
            child, tell = self._child, self._tell_lost
        if child is not None:
            child.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # the kernel is busy with it: nothing more can be done
                child.wait(_WAIT_S)
        self._abandon()
        if lost is not None and tell is not None:
            tell(lost)

    def _abandon(self) -> None:
        """Nobody will answer any more."""

    def _take(self, message: Any) -> None:
        """Take what the child says."""
        raise NotImplementedError

    def _write(self, pipe: Connection) -> None:
        """Send what waits; the root of its thread, which ends with the child."""
        while not self._gone:
            try:
                message = self._outbox.get(timeout=self._heartbeat_s)
            except queue.Empty:
                continue
            try:
                pipe.send(message)
            except (OSError, ValueError):
                return  # the reader sees the end of the pipe, too

    def _read(self, pipe: Connection) -> None:
        """Take what comes until the child is gone or silent; the root of its thread."""
        missed = 0
        why: Lost = "exit"
        try:
            while True:
                if pipe.poll(self._heartbeat_s):
                    missed = 0
                    message = pipe.recv()
                    if not isinstance(message, Pong):
                        self._take(message)
                    continue
                missed += 1
                if missed > self._missed_max:
                    why = "hang"
                    break
                self._post(Ping())
        except (EOFError, OSError):
            _log.debug("stage_process_ended", stage=self.spec.name)
        except Exception:  # noqa: BLE001  the thread's root: what the child says is not understood, and it is replaced
            _log.exception("stage_process_unclear", stage=self.spec.name)
        self._end(why)
        pipe.close()

    def _ending(self) -> str:
        """Say how the child ended."""
        code = None if self._child is None else self._child.returncode
        if code is None:
            return "it could not be started"
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"status {code}"


class ProcessBatch(_Process):
    """A batch stage in a process of its own."""

    def __init__(self, spec: NodeSpec, maker: StageMaker, settings: StageSettings) -> None:
        super().__init__(spec, maker, settings)
        self._answers: queue.Queue[Stepped | Raised | None] = queue.Queue(2)

    def step(self, jobs: Sequence[Job]) -> Sequence[Payload | StageError]:
        """Compute one step in the child.

        Raises:
            MemoryError: the child ran out of it. StageRaisedError: the stage raised. StageGoneError: the child has gone.
        """
        if self._gone:
            raise StageGoneError(self._lost or "exit")
        self._post(Step(tuple(jobs)))
        answer = self._answers.get()
        if answer is None:
            raise StageGoneError(self._lost or "exit")
        if isinstance(answer, Raised):
            raise MemoryError if answer.memory else StageRaisedError(answer.error)
        return answer.results

    def _abandon(self) -> None:
        self._answers.put(None)

    def _take(self, message: Any) -> None:
        assert isinstance(message, Stepped | Raised), "what a batch stage's process says"
        self._answers.put(message)


class ProcessEngine(_Process):
    """An engine in a process of its own."""

    def __init__(self, spec: NodeSpec, maker: StageMaker, settings: StageSettings) -> None:
        super().__init__(spec, maker, settings)
        self._emits: dict[JobId, Emit] = {}

    def submit(self, job: Job, emit: Emit) -> None:
        """Start a job in the child."""
        with self._lock:
            self._emits[job.id] = emit
        self._post(Call("submit", job))

    def abort(self, job: JobId) -> None:
        """Stop a job; nothing is emitted for it any more."""
        with self._lock:
            self._emits.pop(job, None)
        self._post(Call("abort", job))

    def pause(self, job: JobId) -> None:
        """Stop generating, keep the state."""
        self._post(Call("pause", job))

    def resume(self, job: JobId) -> None:
        """Go on."""
        self._post(Call("resume", job))

    def reorder(self, jobs: Sequence[JobId]) -> None:
        """Prefer the running jobs in this order."""
        self._post(Call("reorder", tuple(jobs)))

    def _take(self, message: Any) -> None:
        if isinstance(message, Emitted):
            self._emit(message.job, message.output)
            return
        assert isinstance(message, Raised) and message.job is not None, "an engine raises where a job is submitted"
        kind = "memory" if message.memory else "failed"
        self._emit(message.job, StageError(reason=f"{self.spec.name}: {message.error}", kind=kind))

    def _emit(self, job: JobId, output: Payload | StageError) -> None:
        with self._lock:
            emit = self._emits.pop(job, None) if is_last(output) else self._emits.get(job)
        if emit is not None:
            emit(output)


def isolated(pack: ModelPack, settings: StageSettings) -> ModelPack:
    """Return the pack with some of its stages in processes of their own: those that the configuration names, else its own choice.

    Raises:
        PackError: one that the configuration names cannot have one.
    """
    chosen = pack.processes if settings.processes is None else frozenset(map(Role, settings.processes))
    stages: list[Stage] = []
    makers: dict[Role, StageMaker] = dict(pack.makers)
    for stage in pack.stages:
        role = stage.spec.role
        if role not in chosen:
            stages.append(stage)
            continue
        maker = pack.makers.get(role)
        if maker is None or not _pickles(maker):
            raise PackError(f"stages.processes: {role} of the model pack {pack.name} cannot have a process of its own")
        kind = ProcessEngine if is_engine(stage) else ProcessBatch
        makers[role] = partial(kind, stage.spec, maker, settings)
        stages.append(makers[role]())
    missing = chosen - {stage.spec.role for stage in stages}
    if missing:
        raise PackError(f"stages.processes: the model pack {pack.name} has no {', '.join(sorted(missing))}")
    return replace(pack, stages=tuple(stages), makers=makers)


def _pickles(maker: StageMaker) -> bool:
    try:
        pickle.dumps(maker)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True
