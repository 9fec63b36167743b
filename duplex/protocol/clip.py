"""Audio in an item of the user: `input_audio` parts, which are transcribed as a spoken turn is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from duplex.media.contract import INPUT_RATE
from duplex.media.resample import StreamResampler
from duplex.payloads import Utterance
from duplex.protocol import errors
from duplex.protocol.audio import FormatName, read_audio, samples_of
from duplex.protocol.client_events import ContentPart
from duplex.protocol.errors import RemoteProtocolError
from duplex.units import POSITION_RATE, Samples, Span, convert

_AUDIO = "input_audio"


def read_clip(
    parts: Sequence[ContentPart], role: str, name: FormatName, *, bytes_max: int, ms_max: int
) -> Utterance | None:
    """Return the audio of an item, one part behind the other; None: it has none.

    Args:
        parts: of its content.
        role: whose item it is.
        name: the session's input format, which the audio is in.
        bytes_max: of one part, decoded.
        ms_max: of all of it; 0: the model writes no transcripts, so none is taken.
    Raises:
        RemoteProtocolError: it is not the user's, stands beside other content, cannot be read, or is too long.
    """
    if not any(part.audio is not None for part in parts):
        return None
    if role != "user" or not ms_max:
        raise RemoteProtocolError(errors.UNSUPPORTED, "Audio is taken in the user's items, and heard.", "item.content")
    for i, part in enumerate(parts):
        if part.type != _AUDIO or part.audio is None:
            message = "An item that has audio holds nothing else; create another beside it."
            raise RemoteProtocolError(errors.UNSUPPORTED, message, f"item.content.{i}.type")
    raw = b"".join(
        read_audio(part.audio or "", name, bytes_max=bytes_max, param=f"item.content.{i}.audio")
        for i, part in enumerate(parts)
    )
    pcm, rate = samples_of(raw, name)
    if len(pcm) * 1000 > ms_max * rate:
        raise RemoteProtocolError(errors.TOO_LONG, f"An item takes {ms_max} ms of audio.", "item.content")
    heard = StreamResampler(rate, INPUT_RATE).push(pcm, last=True)
    span = Span(Samples(0), Samples(convert(len(heard), INPUT_RATE, POSITION_RATE)))
    return Utterance(span=span, pcm=np.ascontiguousarray(heard))
