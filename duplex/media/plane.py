"""What all WebRTC peers of a process share: the ticker, the certificate, the video thread; warm before it is ready.

The first request must not pay for imports, keys and codec tables: it would block the loop long enough to disturb the
sessions that run and to spoil its own ICE checks.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from aiortc import RTCCertificate

from duplex.config import MediaSettings, ServerSettings
from duplex.media import opus, rtc
from duplex.media.ticker import Ticker
from duplex.media.video import PictureDecoder

_RENEW_BEFORE = datetime.timedelta(days=1)


class MediaPlane:
    """Made once on the server's loop by `open`, closed after the last peer.

    Args:
        on_lateness: takes the seconds by which each slot of the ticker was late.
    """

    def __init__(
        self,
        media: MediaSettings,
        server: ServerSettings,
        *,
        on_lateness: Callable[[float], None] | None = None,
    ) -> None:
        self.media = media
        self.server = server
        self.ticker = Ticker(phases=media.tick_phases, late_drop_ms=media.late_drop_ms, on_lateness=on_lateness)
        self.video_executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="duplex-video")
        self._certificate = rtc.certificate()

    @classmethod
    async def open(
        cls,
        media: MediaSettings,
        server: ServerSettings,
        *,
        on_lateness: Callable[[float], None] | None = None,
    ) -> MediaPlane:
        """Return a warm plane. Cancel: leaves nothing behind but a thread that ends with the process."""
        plane = cls(media, server, on_lateness=on_lateness)
        await asyncio.to_thread(_warm_codecs, media)
        pc = rtc.connection(plane.certificate())
        await pc.setLocalDescription(await pc.createOffer())
        await pc.close()
        return plane

    def certificate(self) -> RTCCertificate:
        """Return the process's certificate, renewed in time (making one takes less than a millisecond)."""
        if self._certificate.expires - datetime.datetime.now(tz=datetime.UTC) < _RENEW_BEFORE:
            self._certificate = rtc.certificate()
        return self._certificate

    async def close(self) -> None:
        """Stop the ticker and the video thread; peers must be closed before."""
        self.ticker.close()
        await asyncio.to_thread(self.video_executor.shutdown)


def _warm_codecs(media: MediaSettings) -> None:
    encoder = opus.Encoder(bitrate=media.opus_bitrate, complexity=media.opus_complexity)
    opus.Decoder().decode(encoder.encode(np.zeros(960, np.int16)))
    for codec in ("VP8", "H264"):
        PictureDecoder(codec, media.video_edge_px_max)
