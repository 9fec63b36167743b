"""What a session makes of what its ear hears."""

from __future__ import annotations

from typing import Protocol

from duplex.session.conversation import Item
from duplex.units import MonoNs


class Mind(Protocol):
    """What the ear tells the core."""

    def turn_ready(self, item: Item, auto: bool, marks: dict[str, MonoNs], *, understood: bool) -> None:
        """A turn of the user has its words. There are none if it was only a sound, or was not understood: transcription failed."""

    def user_speaks(self) -> None:
        """The user has begun to speak, for sure."""

    def turn_grows(self, text: str) -> None:
        """These words, most likely, were said so far."""

    def user_pauses(self) -> None:
        """The user may have finished: an answer may follow soon."""

    def turn_foreseen(self, text: str, since: MonoNs) -> None:
        """The words of a pause are there before it is decided whether the turn has ended; speech ended at `since`."""

    def turn_withdrawn(self, resumed: bool) -> None:
        """What may have been foreseen has not come: speech goes on, or else the utterance is given up."""

    def interrupt(self) -> None:
        """The user interrupts: cut the output."""

    def floor_free(self) -> None:
        """The user is not speaking after all: what waited for that may go on."""

    @property
    def output_alive(self) -> bool:
        """A reply is being made or played."""
