"""What a session is doing at one moment, for those who watch. Looking changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from duplex.session.barge_in import BargeIn
from duplex.session.lane import Lane, Playout
from duplex.units import MonoNs, Samples, samples_from_ns

Mode = Literal["listening", "hearing", "thinking", "speaking", "ducked", "held"]
"""Nobody speaks; the user does; a reply is awaited or made and nothing of it has left; it plays; it plays lowered, or is
withheld, because the user's voice may be an interruption."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneState:
    """A session's output at one moment."""

    mode: Mode
    lead: Samples
    """Audio generated and not yet played, by the estimate of the playback front."""
    target: Samples | None
    """The lead at which generation pauses; None: there is no target."""
    slack_ns: int | None
    """Until the listener runs dry if nothing more is made; None: nothing sounds, or all of it is made."""
    epoch: int


def lane_state(lane: Lane, barge_in: BargeIn, *, hearing: bool, awaited: bool, now: MonoNs) -> LaneState:
    """Return a lane's state.

    Args:
        lane, barge_in: of the session.
        hearing: the user speaks.
        awaited: a reply is wanted that the lane has not got yet.
        now: the present.
    """
    dry_ns = lane.dry_at(now) - now
    sounding = [reply for reply in lane if reply.generated]
    making = any(not reply.done and reply.ending is None for reply in sounding)
    return LaneState(
        mode=_mode(lane, barge_in, hearing, awaited),
        lead=samples_from_ns(max(0, dry_ns)) if sounding else Samples(0),
        target=lane.target(),
        slack_ns=dry_ns if making else None,
        epoch=lane.epoch,
    )


def _mode(lane: Lane, barge_in: BargeIn, hearing: bool, awaited: bool) -> Mode:
    if any(reply.playout is Playout.PLAYING for reply in lane):
        if not barge_in.pending or barge_in.on_onset == "none":
            return "speaking"
        return "held" if barge_in.withholds else "ducked"
    if hearing:
        return "hearing"
    return "thinking" if awaited or lane.alive else "listening"
