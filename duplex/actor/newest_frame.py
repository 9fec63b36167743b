"""The newest frame of a session's camera, and what the stages are given of it. Pure."""

from __future__ import annotations

from dataclasses import replace

from duplex.media.contract import VideoFrame
from duplex.payloads import Job, Picture, Prompt
from duplex.units import MonoNs, ns_from_ms


class NewestFrame:
    """Keeps one frame.

    Args:
        age_ms_max: a frame that is older is of a camera that is off.
    """

    def __init__(self, age_ms_max: int) -> None:
        self._age_max = ns_from_ms(age_ms_max)
        self._frame: VideoFrame | None = None

    def take(self, frame: VideoFrame) -> None:
        """Keep a frame in place of the one before."""
        self._frame = frame

    def shown_to(self, job: Job, now: MonoNs) -> Job:
        """Return a job, with the frame if it is for a thinker that sees and the camera is on."""
        frame = self._frame
        if (
            not isinstance(job.payload, Prompt)
            or not job.payload.sees
            or frame is None
            or now - frame.at > self._age_max
        ):
            return job
        return replace(job, payload=replace(job.payload, frames=(frame.rgb,)))

    def picture(self) -> Picture:
        """Return the frame as the reader takes it; there is one."""
        assert self._frame is not None, "the core was told of a frame"
        return Picture(rgb=self._frame.rgb, at=self._frame.at)
