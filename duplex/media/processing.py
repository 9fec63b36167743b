"""Echo and noise processing of what is heard: WebRTC's audio processing module, before anything else listens.

    microphone ──► 10 ms ──► APM ──► 10 ms ──► ingress ring, VAD, transcription
                              ▲
    reference  ──► what left so long before as the listener hears it later

For clients that have none of their own (kiosks, phones behind a gateway); browsers do it better, beside the loudspeaker. The
optional extra `apm` brings the module; without it a server that is to offer it does not start.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from duplex.media.contract import INPUT_RATE
from duplex.media.reference import Reference
from duplex.payloads import Int16Array
from duplex.units import POSITION_RATE, Samples

FRAME = INPUT_RATE // 100
"""Samples of a step: 10 ms."""
_INSTALL = "audio processing needs the extra apm: pip install 'duplex[apm]'"


class ProcessingUnavailable(Exception):
    """The module is not installed; the message says how to get it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Processing:
    """What a session wants done to its input; equal values are the same processing."""

    echo: bool = False
    """Cancel what was sent."""
    noise: bool = False
    """Suppress steady noise, and rumble."""


class Module(Protocol):
    """What is called, step by step."""

    def hear(self, microphone: Int16Array, reference: Int16Array, delay_ms: int) -> Int16Array:
        """Process 10 ms; `delay_ms` is how much later than the reference its echo may be expected."""


Make = Callable[[Processing], Module]


def load() -> Make:
    """Import the module; return what makes one for a session.

    Raises:
        ProcessingUnavailable: it is not installed.
    """
    try:
        rtc: Any = importlib.import_module("livekit.rtc")
    except ImportError as error:
        raise ProcessingUnavailable(_INSTALL) from error
    return lambda wanted: _Apm(rtc, wanted)


class _Apm:
    def __init__(self, rtc: Any, wanted: Processing) -> None:
        self._frame = rtc.AudioFrame
        self._echo = wanted.echo
        self._apm = rtc.AudioProcessingModule(
            echo_cancellation=wanted.echo, noise_suppression=wanted.noise, high_pass_filter=wanted.noise or wanted.echo
        )

    def hear(self, microphone: Int16Array, reference: Int16Array, delay_ms: int) -> Int16Array:
        if self._echo:
            self._apm.process_reverse_stream(self._framed(reference))
            self._apm.set_stream_delay_ms(delay_ms)
        near = self._framed(microphone)
        self._apm.process_stream(near)
        return np.frombuffer(near.data, np.int16)

    def _framed(self, pcm: Int16Array) -> Any:
        return self._frame(bytearray(pcm.tobytes()), INPUT_RATE, 1, FRAME)


class AudioProcessor:
    """One session's processing; gives as much audio as it takes, late by less than 10 ms.

    Args:
        module: does the work.
        reference: what was sent, by input position.
        delay: time from sending until the listener hears it, as is estimated now, less its error.
    """

    def __init__(self, module: Module, reference: Reference, delay: Callable[[], Samples], at: int) -> None:
        self._module = module
        self._reference = reference
        self._delay = delay
        self._at = at
        self._rest = np.zeros(0, np.int16)

    def push(self, pcm: Int16Array) -> Int16Array:
        """Process the next input, shape (n,), 16 kHz; return what is ready, shape (m,), |m − n| < 160."""
        waiting = np.concatenate([self._rest, pcm])
        whole = len(waiting) // FRAME * FRAME
        self._rest = waiting[whole:]
        ready = [self._step(frame) for frame in waiting[:whole].reshape(-1, FRAME)]
        return np.concatenate(ready) if ready else np.zeros(0, np.int16)

    def _step(self, frame: Int16Array) -> Int16Array:
        later = self._delay() * INPUT_RATE // POSITION_RATE
        reference = self._reference.read(self._at - later, self._at - later + FRAME)
        self._at += FRAME
        return self._module.hear(frame, reference, 0)
