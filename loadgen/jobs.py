"""A payload as a job of its own, for a stage that is driven directly: by the calibration, a benchmark or a test."""

from __future__ import annotations

import itertools

from duplex.payloads import (
    CONVERSATION_LANE,
    Address,
    Clause,
    Job,
    JobId,
    LatentChunk,
    Pace,
    Payload,
    Picture,
    Prompt,
    Role,
    Utterance,
    VoiceWindow,
)
from duplex.units import MonoNs

_ROLES: dict[type, Role] = {
    VoiceWindow: Role.VAD,
    Utterance: Role.TRANSCRIBE,
    Prompt: Role.THINK,
    Clause: Role.TALK,
    LatentChunk: Role.VOCODE,
    Picture: Role.READ,
}
_ids = itertools.count(1)


def job(payload: Payload, session: str = "s", role: Role | None = None) -> Job:
    """Return a job that no lane, reply or pace is known of.

    Args:
        payload: what the stage is given.
        session: whose state in the stage it belongs to.
        role: of the stage; None: the one that takes such a payload, and of those that take an utterance the transcriber.
    """
    address = Address(session=session, lane=CONVERSATION_LANE, epoch=0)
    stage = role or _ROLES[type(payload)]
    return Job(id=JobId(next(_ids)), stage=stage, address=address, payload=payload, pace=Pace(since=MonoNs(0)))
