"""The camera: packets to the newest picture, a few times a second, off the loop's thread.

    packets → `FrameAssembler` (pure) → encoded frames kept since the last sample → one job: decode, scale → sink.see

Inter-coded frames need the ones before them, so all kept frames are decoded in one job and only the last becomes a
picture; frames nothing refers to, and all before a newer keyframe, are dropped undecoded. After a loss nothing is
handed on until the next keyframe, which is asked for (PLI) at most twice a second. Every bound that is hit has the same
end: forget and ask for a keyframe.

While the rate is lowered (`VideoRate`), what comes between two samples is not even put together, and each sample begins with
a keyframe that is asked for: one frame is decoded instead of all.

Source: RFC 7741 (VP8 payload); RFC 6184 (H.264 payload).
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

import av
import av.error
import numpy as np
import structlog
from aiortc.codecs.h264 import h264_depayload
from aiortc.codecs.vpx import VpxPayloadDescriptor
from numpy.typing import NDArray

from duplex.config import MediaSettings
from duplex.media.contract import MediaSink, VideoFrame
from duplex.media.rtp import RtpPacket
from duplex.units import MonoNs, ns_from_ms, ns_from_seconds

_REORDER_NS = ns_from_ms(100)
_REORDER_MAX = 128
_FRAME_BYTES_MAX = 4 * 1024 * 1024
_KEPT_FRAMES_MAX = 300
_KEPT_BYTES_MAX = 8 * 1024 * 1024
_PLI_EVERY = ns_from_ms(500)
_PIXELS_MAX = 4096 * 2304
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedFrame:
    """One picture as the codec takes it."""

    data: bytes
    key: bool
    """Decodes without any other."""
    disposable: bool
    """No other picture refers to it."""
    at: MonoNs
    """Arrival of its last packet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    data: bytes
    begins: bool
    key: bool
    disposable: bool
    rtp_ts: int
    marker: bool
    at: MonoNs


def _vp8(payload: bytes) -> tuple[bytes, bool, bool, bool]:
    """Return data, begins a frame, keyframe, disposable."""
    descriptor, data = VpxPayloadDescriptor.parse(payload)
    begins = bool(descriptor.partition_start) and descriptor.partition_id == 0
    return data, begins, begins and bool(data) and not data[0] & 1, bool(payload[0] & 0x20)


def _h264(payload: bytes) -> tuple[bytes, bool, bool, bool]:
    data = h264_depayload(payload)
    kind = data[4] & 0x1F if data[:4] == b"\0\0\0\1" and len(data) > 4 else 0
    return data, kind != 0, kind in (5, 7), not payload[0] & 0x60


class FrameAssembler:
    """Frames of one video stream from its packets.

    Args:
        codec: `VP8` or `H264`.
    """

    def __init__(self, codec: str) -> None:
        self._depayload = _vp8 if codec == "VP8" else _h264
        self._held: dict[int, _Piece] = {}
        self._next: int | None = None
        self._ssrc: int | None = None
        self._frame: list[_Piece] = []
        self._frame_bytes = 0
        self.wants_key = True
        """Nothing can be shown before the next keyframe."""
        self.malformed = 0

    def push(self, packet: RtpPacket, now: MonoNs) -> list[EncodedFrame]:
        """Take a packet and return the frames it completes; none while a keyframe is wanted."""
        if not packet.payload:  # padding, to measure bandwidth: it has a sequence number all the same
            piece = _Piece(
                data=b"", begins=False, key=False, disposable=True, rtp_ts=packet.rtp_ts, marker=False, at=now
            )
        else:
            try:
                data, begins, key, disposable = self._depayload(packet.payload)
            except ValueError:
                self.malformed += 1
                return []
            piece = _Piece(
                data=data,
                begins=begins,
                key=key,
                disposable=disposable,
                rtp_ts=packet.rtp_ts,
                marker=packet.marker,
                at=now,
            )
        ahead = 0 if self._next is None else (packet.rtp_seq - self._next + 0x8000) % 0x10000 - 0x8000
        if packet.ssrc != self._ssrc or ahead < -_REORDER_MAX or ahead > 8 * _REORDER_MAX:
            self._ssrc, self._next = packet.ssrc, packet.rtp_seq
            self._held.clear()
            self.lose()
        elif ahead < 0:
            return []
        self._held[packet.rtp_seq] = piece
        return self._take(now)

    def restart(self) -> None:
        """Begin anew with the next packet, whatever was missed, and wait for a keyframe."""
        self._ssrc = None
        self.lose()

    def lose(self) -> None:
        """Forget the frame in hand and wait for a keyframe."""
        self._frame.clear()
        self._frame_bytes = 0
        self.wants_key = True

    def _take(self, now: MonoNs) -> list[EncodedFrame]:
        frames: list[EncodedFrame] = []
        while self._held:
            assert self._next is not None
            piece = self._held.pop(self._next, None)
            if piece is None:
                waited = now - min(p.at for p in self._held.values())
                if waited < _REORDER_NS and len(self._held) < _REORDER_MAX:
                    break
                self._next = (self._next + min((seq - self._next) & 0xFFFF for seq in self._held)) & 0xFFFF
                self.lose()
                continue
            self._next = (self._next + 1) & 0xFFFF
            frames += self._add(piece)
        return frames

    def _add(self, piece: _Piece) -> list[EncodedFrame]:
        frames = self._complete() if self._frame and piece.rtp_ts != self._frame[0].rtp_ts else []
        if not piece.data:
            return frames
        if not self._frame and not piece.begins:
            self.wants_key = True  # its beginning is lost
            return frames
        self._frame.append(piece)
        self._frame_bytes += len(piece.data)
        if self._frame_bytes > _FRAME_BYTES_MAX:
            self.lose()
        elif piece.marker:
            frames += self._complete()
        return frames

    def _complete(self) -> list[EncodedFrame]:
        pieces, self._frame, self._frame_bytes = self._frame, [], 0
        if pieces[0].key:
            self.wants_key = False
        if self.wants_key:
            return []
        frame = EncodedFrame(
            data=b"".join(p.data for p in pieces),
            key=pieces[0].key,
            disposable=all(p.disposable for p in pieces),
            at=pieces[-1].at,
        )
        return [frame]


class PictureDecoder:
    """Encoded frames to one RGB picture; runs in the executor, one job at a time.

    Args:
        codec: `VP8` or `H264`.
        edge_px_max: longer edge of the picture.
    """

    def __init__(self, codec: str, edge_px_max: int) -> None:
        self._codec = av.CodecContext.create(codec.lower(), "r")
        self._codec.thread_count = 1
        self._codec.options = {"max_pixels": str(_PIXELS_MAX)}
        self._edge = edge_px_max

    def decode(self, frames: list[EncodedFrame]) -> NDArray[np.uint8] | None:
        """Decode all of `frames`, in order, and return the last as (height, width, 3), or None without a picture.

        Raises:
            av.error.FFmpegError: a frame is corrupt; only a keyframe helps.
        """
        picture = None
        for frame in frames:
            for decoded in self._codec.decode(av.Packet(frame.data)):
                picture = decoded
        if picture is None:
            return None
        scale = min(1.0, self._edge / max(picture.width, picture.height))
        width, height = max(round(picture.width * scale), 1), max(round(picture.height * scale), 1)
        rgb: NDArray[np.uint8] = picture.reformat(width=width, height=height, format="rgb24").to_ndarray()
        return rgb


class VideoRate:
    """How much of `video_fps_max` is sampled at this moment, by all cameras of the process alike."""

    def __init__(self) -> None:
        self.share = 1.0
        """1: all of it; less while the server is near its limits. Greater than 0."""


@functools.cache
def video_rate() -> VideoRate:
    """Return the process's rate; whoever decides on admission sets it."""
    return VideoRate()


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoStats:
    """Counts since the start."""

    seen: int
    """Pictures handed to the session."""
    dropped: int
    """Frames dropped undecoded."""
    plis: int
    kept: int
    """Frames that wait for the next sample."""


class VideoIn:
    """One peer's camera: packets in, `sink.see` out; see the module.

    Args:
        executor: shared by all peers.
        ask_keyframe: sends a PLI for the given SSRC.
        rate: shared by all peers.
    """

    def __init__(
        self,
        *,
        sink: MediaSink,
        codec: str,
        settings: MediaSettings,
        executor: Executor,
        ask_keyframe: Callable[[int], None],
        rate: VideoRate,
    ) -> None:
        self._sink = sink
        self._rate = rate
        self._assembler = FrameAssembler(codec)
        self._decoder = PictureDecoder(codec, settings.video_edge_px_max)
        self._executor = executor
        self._ask_keyframe = ask_keyframe
        self._interval = ns_from_seconds(1 / settings.video_fps_max)
        self._loop = asyncio.get_running_loop()
        self._kept: list[EncodedFrame] = []
        self._kept_bytes = 0
        self._job: asyncio.Future[NDArray[np.uint8] | None] | None = None
        self._ssrc: int | None = None
        self._sampled_at: MonoNs | None = None
        self._asked_at: MonoNs | None = None
        self._resting = False
        """Nothing is put together before the next sample is due."""
        self._closed = False
        self._seen = self._dropped = self._plis = 0

    def receive(self, packet: RtpPacket, now: MonoNs) -> None:
        """Take an unprotected packet of our video payload type."""
        self._ssrc = packet.ssrc
        if self._resting:
            self._dropped += packet.marker
            return
        for frame in self._assembler.push(packet, now):
            self._keep(frame)
        self._ask(now)

    def tick(self, now: MonoNs) -> None:
        """Start decoding when the next sample is due; call every 20 ms."""
        share = self._rate.share
        due = self._sampled_at is None or (now - self._sampled_at) * share >= self._interval
        if self._resting and due:
            self._resting = False
            self._assembler.restart()
        self._ask(now)
        if self._job is not None or not self._kept or not due:
            return
        frames, self._kept, self._kept_bytes = self._kept, [], 0
        self._sampled_at = now
        self._resting = share < 1
        self._job = self._loop.run_in_executor(self._executor, self._decoder.decode, frames)
        self._job.add_done_callback(lambda job: self._decoded(job, frames[-1].at))

    def close(self) -> None:
        """Hand nothing on any more; a job that runs ends by itself."""
        self._closed = True
        self._kept.clear()

    def stats(self) -> VideoStats:
        """Return the counts."""
        return VideoStats(seen=self._seen, dropped=self._dropped, plis=self._plis, kept=len(self._kept))

    def _keep(self, frame: EncodedFrame) -> None:
        if frame.key:
            self._dropped += len(self._kept)
            self._kept, self._kept_bytes = [], 0
        elif self._kept and self._kept[-1].disposable:
            self._dropped += 1
            self._kept_bytes -= len(self._kept.pop().data)
        self._kept.append(frame)
        self._kept_bytes += len(frame.data)
        if len(self._kept) > _KEPT_FRAMES_MAX or self._kept_bytes > _KEPT_BYTES_MAX:
            self._forget()

    def _forget(self) -> None:
        self._dropped += len(self._kept)
        self._kept, self._kept_bytes = [], 0
        self._assembler.lose()

    def _ask(self, now: MonoNs) -> None:
        asked_lately = self._asked_at is not None and now - self._asked_at < _PLI_EVERY
        if self._ssrc is None or self._resting or not self._assembler.wants_key or asked_lately:
            return
        self._asked_at = now
        self._plis += 1
        self._ask_keyframe(self._ssrc)

    def _decoded(self, job: asyncio.Future[NDArray[np.uint8] | None], at: MonoNs) -> None:
        self._job = None
        if self._closed or job.cancelled():
            return
        error = job.exception()
        if isinstance(error, av.error.FFmpegError):
            self._forget()
        elif error is not None:
            _log.error("video_decoder_failed", exc_info=error)
            self._forget()
        elif (rgb := job.result()) is not None:
            self._seen += 1
            self._sink.see(VideoFrame(rgb=rgb, at=at))
