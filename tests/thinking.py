"""A job for a stage that is driven directly, and what a thinker gives for it: text, function calls, or an error."""

from __future__ import annotations

import itertools
import threading

from duplex.payloads import (
    Address,
    CallDelta,
    Clause,
    Job,
    JobId,
    LatentChunk,
    Pace,
    Payload,
    Prompt,
    Role,
    StageError,
    TextDelta,
    Utterance,
    VoiceWindow,
)
from duplex.units import MonoNs

_ids = itertools.count(1)
_ROLES: dict[type, Role] = {
    VoiceWindow: Role.VAD,
    Utterance: Role.TRANSCRIBE,
    Prompt: Role.THINK,
    Clause: Role.TALK,
    LatentChunk: Role.VOCODE,
}


def job(payload: Payload, session: str = "s") -> Job:
    """Return a payload as a job of its own."""
    address = Address(session=session, lane=0, epoch=0)
    role = _ROLES.get(type(payload), Role.THINK)
    return Job(id=JobId(next(_ids)), stage=role, address=address, payload=payload, pace=Pace(since=MonoNs(0)))


class Given:
    """What a thinker emits for one job, as it comes in."""

    def __init__(self) -> None:
        self.outputs: list[Payload | StageError] = []
        self.called = threading.Event()
        """A call has begun."""
        self.ended = threading.Event()

    def emit(self, output: Payload | StageError) -> None:
        """Take an output; called on the engine's thread."""
        self.outputs.append(output)
        if isinstance(output, CallDelta):
            self.called.set()
        elif isinstance(output, StageError) or (isinstance(output, TextDelta) and output.finish is not None):
            self.ended.set()

    @property
    def calls(self) -> list[CallDelta]:
        """All pieces of calls."""
        return [output for output in self.outputs if isinstance(output, CallDelta)]

    @property
    def arguments(self) -> str:
        """JSON of the call's arguments, where there is one call; as much as has come."""
        return "".join(delta.arguments for delta in self.calls)

    @property
    def text(self) -> str:
        """The words."""
        return "".join(output.text for output in self.outputs if isinstance(output, TextDelta))

    @property
    def error(self) -> StageError | None:
        """Why it failed; None: it did not."""
        return next((output for output in self.outputs if isinstance(output, StageError)), None)
