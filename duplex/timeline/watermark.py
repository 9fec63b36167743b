"""Input watermarks: the position before which a track is final. They never move back."""

from __future__ import annotations

from duplex.units import Samples


class Watermark:
    """Of an audio track: everything before it has arrived, was concealed or was declared silent."""

    def __init__(self) -> None:
        self.position = Samples(0)

    def advance(self, to: Samples) -> bool:
        """Move on to `to`; return False, and stay, if that would be back or nowhere."""
        if to <= self.position:
            return False
        self.position = to
        return True


class VideoWatermark:
    """Of the camera: the newest sampled frame, or the audio watermark less a lag if that is later.

    Args:
        lag: how far the camera may hold a reader back.
    Source: DESIGN.md §1.
    """

    def __init__(self, lag: Samples) -> None:
        self._lag = lag
        self._newest = Samples(0)
        self._position = Samples(0)

    def sampled(self, at: Samples) -> None:
        """Note a frame; an older one than the newest is ignored."""
        self._newest = max(self._newest, at)

    def position(self, audio: Samples) -> Samples:
        """Return the watermark when the audio watermark stands at `audio`."""
        self._position = max(self._position, self._newest, Samples(audio - self._lag))
        return self._position
