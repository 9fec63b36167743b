"""The audio of out-of-band replies, on WebSocket: a speaker for each lane beside the conversation's, while it has something to say."""

from __future__ import annotations

from collections.abc import Callable

from duplex.actor.speaker import Speaker
from duplex.session.effects import CutLane, Enqueue
from duplex.session.messages import Sent
from duplex.units import MonoNs


class SpeakersBeside:
    """The speakers of one session's further lanes; the core bounds how many there are.

    Args:
        make: gives the speaker of a lane.
    """

    def __init__(self, make: Callable[[int], Speaker]) -> None:
        self._make = make
        self._speakers: dict[int, Speaker] = {}

    def __len__(self) -> int:
        return len(self._speakers)

    def enqueue(self, effect: Enqueue) -> bool:
        """Queue audio of a reply; return False if that is more than may wait."""
        lane = effect.address.lane
        if lane not in self._speakers:
            self._speakers[lane] = self._make(lane)
        return self._speakers[lane].enqueue(effect)

    def cut(self, effect: CutLane, now: MonoNs) -> Sent:
        """Let nothing more of a lane leave; return what had left before."""
        speaker = self._speakers.pop(effect.lane, None)
        return Sent(lane=effect.lane, ranges=(), cut=effect.epoch) if speaker is None else speaker.cut(effect, now)

    def pump(self) -> None:
        """Send waiting audio of every lane; a speaker whose reply has all left is not kept."""
        for lane, speaker in list(self._speakers.items()):
            speaker.pump()
            if speaker.egress.idle and self._speakers.get(lane) is speaker:
                del self._speakers[lane]
