"""The test double's reader: claims to read its script, whatever the picture shows; an image has to be one."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from duplex.media.images import ImageError, pixels_of
from duplex.payloads import Job, Payload, Picture, Reading, StageError
from duplex.stages.contract import NodeSpec, Role
from duplex_models.sim.stages import SimBatch

_EDGE_PX_MAX = 640


class SimRead(SimBatch):
    """Reads the next text of its script in each picture."""

    spec = NodeSpec(name="read", role=Role.READ, takes=Picture, gives=Reading, unit="picture")

    def __init__(self, reads: Sequence[str], cost_s: float, sleeps: bool) -> None:
        super().__init__(cost_s, sleeps)
        self._reads = deque(reads)
        self.pictures = 0
        """Pictures it was given."""

    def compute(self, job: Job) -> Payload | StageError:
        """Return the script's next text as one line; an empty text is a picture without any."""
        picture = job.payload
        assert isinstance(picture, Picture)
        try:
            pixels_of(picture, _EDGE_PX_MAX)
        except ImageError as error:
            return StageError(reason=str(error), kind="invalid")
        self.pictures += 1
        text = self._reads[0]
        self._reads.rotate(-1)
        return Reading(at=picture.at, lines=(text,) if text else ())
