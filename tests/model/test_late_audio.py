"""Audio that comes in late is understood as if it had come in time: codec, jitter buffer and transcription together."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from duplex.config import MediaSettings
from duplex.media import opus
from duplex.media.audio_path import AudioIn
from duplex.media.codec import AudioCodec
from duplex.media.rtp import RtpPacket
from duplex.payloads import Int16Array, Transcript
from duplex.units import MonoNs, ns_from_ms
from loadgen.jobs import job
from tests.model.harness import utterance
from tests.speech import FACT_VOICES, fact_audio, facts, word_error_rate

pytestmark = pytest.mark.model

OPUS = AudioCodec(name="opus", payload_type=111, clock_rate=48_000)
PACKET = 960
STALL_MS = (35, 110)
"""Length of a client's stalls, at random between the two: a busy phone, a Wi-Fi scan."""
BETWEEN_MS = (350, 1050)


class Recorder:
    """A sink that keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[Int16Array] = []

    def hear(self, pcm: Int16Array, arrived: MonoNs | None = None) -> None:
        self.heard.append(pcm)

    def hear_silence(self, n: int) -> None:
        self.heard.append(np.zeros(n, np.int16))

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the way in uses nothing else of a sink, but asked for {name}")


def arrivals(packets: int, seed: int) -> list[float]:
    """Return when each packet comes in, in ms, from a client that stalls now and then and sends the rest at once."""
    random = Random(seed)
    times: list[float] = []
    stall, resume = random.uniform(*BETWEEN_MS), 0.0
    for index in range(packets):
        due = 20.0 * (index + 1)
        if due > stall:
            resume = stall + random.uniform(*STALL_MS)
            stall = resume + random.uniform(*BETWEEN_MS)
        times.append(max(due, resume))
    return times


def heard(pcm: Int16Array, seed: int) -> Int16Array:
    """Return a recording at 48 kHz as the session hears it, 16 kHz."""
    encoder = opus.Encoder(bitrate=32_000, complexity=5)
    padded = np.pad(pcm, (0, -len(pcm) % PACKET))
    payloads = [encoder.encode(packet) for packet in padded.reshape(-1, PACKET)]
    sink = Recorder()
    path = AudioIn(sink=sink, codec=OPUS, settings=MediaSettings(), now=MonoNs(0))
    coming = [(at, index) for index, at in enumerate(arrivals(len(payloads), seed))]
    ticks = [(20.0 * n, -1) for n in range(1, int(coming[-1][0] / 20) + 1)]
    for at, index in sorted(coming + ticks):
        now = MonoNs(ns_from_ms(at))
        if index >= 0:
            packet = RtpPacket(
                payload_type=111, rtp_seq=index, rtp_ts=index * PACKET, ssrc=1, marker=False, payload=payloads[index]
            )
            path.receive(packet, now)
        path.advance(now)
    return np.concatenate(sink.heard)


def test_stalls_of_the_client_cost_no_words(transcribe: Any) -> None:
    said, understood = [], []
    for number, (index, voice) in enumerate((i, v) for i in range(10) for v in FACT_VOICES):
        pcm = heard(fact_audio(index, voice, 48_000), seed=number)
        (transcript,) = transcribe.step([job(utterance(pcm))])
        assert isinstance(transcript, Transcript)
        said.append(facts()[index].ask)
        understood.append(transcript.text)
    assert word_error_rate(said, understood) <= 0.01, understood
