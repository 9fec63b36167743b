"""What all WebRTC peers of a process share, and making it warm before the server is ready.

The first request must not pay for imports, keys and codec tables: it would block the loop long enough to disturb the
sessions that run and to spoil its own ICE checks.
"""

from __future__ import annotations

import asyncio
import datetime
import functools
from concurrent.futures import Executor, ThreadPoolExecutor

import numpy as np
from aiortc import RTCCertificate

from duplex.config import MediaSettings
from duplex.media import opus, rtc
from duplex.media.video import PictureDecoder

_RENEW_BEFORE = datetime.timedelta(days=1)
_certificates: list[RTCCertificate] = []


def certificate() -> RTCCertificate:
    """Return the process's certificate: made once, renewed a day before it expires (in less than a millisecond)."""
    if not _certificates or _certificates[-1].expires - datetime.datetime.now(tz=datetime.UTC) < _RENEW_BEFORE:
        _certificates[:] = [rtc.certificate()]
    return _certificates[-1]


@functools.cache
def video_executor() -> Executor:
    """Return the one thread that decodes the pictures of all peers; it ends with the process."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="duplex-video")


async def warm_media(media: MediaSettings) -> None:
    """Do once what the first peer would otherwise wait for. Cancel: leaves nothing open."""
    await asyncio.to_thread(_warm_codecs, media)
    pc = rtc.connection(certificate())
    try:
        await pc.setLocalDescription(await pc.createOffer())
    finally:
        await pc.close()


def _warm_codecs(media: MediaSettings) -> None:
    encoder = opus.Encoder(bitrate=media.opus_bitrate, complexity=media.opus_complexity)
    opus.Decoder().decode(encoder.encode(np.zeros(960, np.int16)))
    for codec in ("VP8", "H264"):
        PictureDecoder(codec, media.video_edge_px_max)
