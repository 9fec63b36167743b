"""Text before the camera, and in images of items: PP-OCRv4, found and read by RapidOCR on one thread.

Nothing but the hashes is loaded at start: a server whose callers show nothing pays neither the time nor the memory. The
first picture loads the models, on the stage's own thread, which yields the processor to all others from then on.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Sequence
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from duplex.media.images import ImageError, pixels_of
from duplex.payloads import Job, Picture, Reading, StageError
from duplex.stages.contract import NodeSpec, PackError, Progress, Role
from duplex_models.local import weights

_SCORE_MIN = 0.6
"""Lines that the model is less sure of are not passed on."""
_NICE = 10
_LIBRARIES = ("cv2", "pyclipper", "shapely", "PIL")


class Read:
    """Batch stage: `Picture` → `Reading`; keeps nothing between calls.

    Args:
        edge_px_max: a camera's frames are scaled to this longer edge.
        image_edge_px_max: and images of items to this one.
    """

    spec = NodeSpec(name="reader", role=Role.READ, takes=Picture, gives=Reading, unit="picture", cut_ms=500, step_s=0.2)

    def __init__(self, edge_px_max: int, image_edge_px_max: int) -> None:
        self._edge = edge_px_max
        self._image_edge = image_edge_px_max
        self._ocr: Any = None

    def load(self, progress: Progress) -> None:
        """Check that everything is there; the models are loaded with the first picture.

        Raises:
            PackError: a weight is missing or damaged, or a library is missing.
        """
        progress("camera: PP-OCRv4, loaded with the first picture")
        weights.verified(*weights.READER)
        missing = [name for name in _LIBRARIES if importlib.util.find_spec(name) is None]
        if missing:
            raise PackError(f"the camera's reader needs {', '.join(missing)}: pip install 'duplex[local]'")

    def step(self, jobs: Sequence[Job]) -> list[Reading | StageError]:
        """Return what is legible in each picture."""
        results: list[Reading | StageError] = []
        for job in jobs:
            if isinstance(job.payload, Picture):
                results.append(self._read(job.payload))
            else:
                results.append(StageError(reason="the reader takes a picture", kind="refused"))
        return results

    def _read(self, picture: Picture) -> Reading | StageError:
        edge = self._edge if picture.image is None else self._image_edge
        try:
            rgb = pixels_of(picture, edge)
        except ImageError as error:
            return StageError(reason=str(error), kind="invalid")
        return Reading(at=picture.at, lines=self._lines(scaled(rgb, edge)))

    def _lines(self, rgb: NDArray[np.uint8]) -> tuple[str, ...]:
        if self._ocr is None:
            self._ocr = _loaded()
        found, _ = self._ocr(rgb[:, :, ::-1])
        return tuple(text.strip() for _, text, score in found or () if float(score) >= _SCORE_MIN and text.strip())

    def release(self, session: str) -> None:
        """Nothing is kept for a session."""

    def close(self) -> None:
        """Forget the models."""
        self._ocr = None


def _loaded() -> Any:
    import cv2  # noqa: PLC0415 (75 MB that only a camera is worth)
    from rapidocr_onnxruntime import RapidOCR  # noqa: PLC0415

    if hasattr(os, "setpriority") and threading.current_thread() is not threading.main_thread():
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)  # Linux: of this thread alone
    cv2.setNumThreads(1)
    # `max`: a small picture is not enlarged, which would double the cost.
    return RapidOCR(intra_op_num_threads=1, inter_op_num_threads=1, use_cls=False, det_limit_type="max")


def scaled(rgb: NDArray[np.uint8], edge_px_max: int) -> NDArray[np.uint8]:
    """Return the picture, (height, width, 3), with its longer edge at most `edge_px_max`."""
    height, width = rgb.shape[:2]
    scale = edge_px_max / max(height, width)
    if scale >= 1:
        return rgb
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(rgb), format="rgb24")
    size = {"width": max(1, round(width * scale)), "height": max(1, round(height * scale))}
    small: NDArray[np.uint8] = frame.reformat(**size, format="rgb24").to_ndarray()
    return small
