"""Whole sessions over a seeded bad network, on simulated time: Opus packets lost, late and out of order on the way in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from duplex_models.sim import SimOptions

from duplex.media import opus
from duplex.media.audio_path import AudioIn
from duplex.media.codec import AudioCodec
from duplex.media.rtp import RtpPacket
from duplex.units import MonoNs, ns_from_ms
from tests.sim.world import TICK_NS, Server, Session

pytestmark = pytest.mark.sim
OPUS = AudioCodec(name="opus", payload_type=111, clock_rate=48_000)


@dataclass(frozen=True)
class Link:
    """A way in: seeded by the world's random."""

    loss: float = 0.0
    jitter_ms: float = 0.0
    delay_ms: float = 30.0


class Microphone:
    """Encodes what the user says and puts it through a link into the production jitter buffer and decoder."""

    def __init__(self, session: Session, link: Link) -> None:
        session.mute()
        self._session = session
        self._world = session.server.world
        self._link = link
        self._encoder = opus.Encoder(bitrate=32_000, complexity=0)
        self._audio = AudioIn(
            sink=session.actor, codec=OPUS, settings=session.server.settings.media, now=self._world.now()
        )
        self._number = 65_500
        self._until = 0
        self.heard = 0
        hear = session.actor.hear

        def counted(pcm: np.ndarray, arrived: MonoNs | None = None) -> None:  # type: ignore[type-arg]
            self.heard += len(pcm)
            hear(pcm, arrived)

        session.actor.hear = counted  # type: ignore[method-assign]
        self._tick()

    def say(self, ms: float) -> None:
        self._until = self._world.now() + ns_from_ms(ms)

    def stats(self):  # type: ignore[no-untyped-def]
        return self._audio.stats()

    def _tick(self) -> None:
        if self._session.ended:
            return
        now = self._world.now()
        t = (self._number * 960 + np.arange(960)) / 48_000
        level = 9000 if now < self._until else 0
        payload = self._encoder.encode((level * np.sin(2 * np.pi * 300 * t)).astype(np.int16))
        packet = RtpPacket(
            payload_type=111, marker=False, rtp_seq=self._number % 65_536, rtp_ts=self._number * 960 % 2**32, ssrc=1,
            payload=payload,
        )  # fmt: skip
        self._number += 1
        rng = self._world.random
        if rng.random() >= self._link.loss:
            delay = ns_from_ms(self._link.delay_ms + rng.uniform(0, self._link.jitter_ms))
            self._world.call_at(MonoNs(now + delay), lambda: self._audio.receive(packet, self._world.now()))
        self._audio.advance(now)
        self._world.call_at(MonoNs(now + TICK_NS), self._tick)


def conversation(link: Link, seed: int) -> tuple[list[tuple[int, int]], Server, Microphone]:
    """Speak three times; return (started, stopped) of each turn in ms of the session's input."""
    server = Server(SimOptions(vad="level", script=("Yes.",)), seed=seed)
    session = server.connect()
    mic = Microphone(session, link)
    for _ in range(3):
        server.advance(600)
        mic.say(1500)
        server.advance(3400)
    starts = [event["audio_start_ms"] for event in session.client.of("input_audio_buffer.speech_started")]
    stops = [event["audio_end_ms"] for event in session.client.of("input_audio_buffer.speech_stopped")]
    server.check()
    return list(zip(starts, stops, strict=True)), server, mic


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "link",
    [
        Link(loss=0.01),
        Link(loss=0.05),
        Link(jitter_ms=60),
        Link(loss=0.05, jitter_ms=60),
        Link(loss=0.1, jitter_ms=30, delay_ms=120),
    ],
    ids=lambda link: f"loss{link.loss:.0%}-jitter{link.jitter_ms:.0f}-delay{link.delay_ms:.0f}",
)
def test_turns_are_the_same_as_on_a_good_network(link: Link, seed: int) -> None:
    good, _, _ = conversation(Link(), seed)
    bad, server, mic = conversation(link, seed)
    assert len(bad) == len(good) == 3
    for (start, stop), (good_start, good_stop) in zip(bad, good, strict=True):
        assert abs((stop - start) - (good_stop - good_start)) <= 150
    statuses = [event["response"]["status"] for event in server.sessions[0].client.of("response.done")]
    assert statuses == ["completed"] * 3
    elapsed = server.world.now() / 1e9
    assert mic.heard / 16_000 == pytest.approx(elapsed, abs=0.6)


def test_the_same_seed_loses_the_same_packets() -> None:
    link = Link(loss=0.05, jitter_ms=60)
    assert conversation(link, 1)[0] == conversation(link, 1)[0]


def test_an_interruption_is_heard_through_a_bad_network() -> None:
    server = Server(SimOptions(vad="level", script=("word " * 60,)), seed=5)
    session = server.connect()
    mic = Microphone(session, Link(loss=0.05, jitter_ms=60))
    session.type_text("go")
    server.advance(3000)
    onset = server.world.now()
    mic.say(1200)
    server.advance(1000)
    assert session.client.of("response.done")[0]["response"]["status_details"]["reason"] == "turn_detected"
    assert session.sounding()[-1] - onset < ns_from_ms(650)
    server.check()


def test_windows_are_analysed_in_the_order_of_the_audio_whenever_its_packets_came() -> None:
    """The packet behind a late one came before it. What has waited longest is computed first: by that measure alone it would be
    the wrong window."""
    server = Server(SimOptions(vad="level"), seed=1)
    session = server.connect()
    session.mute()
    analysed: list[int] = []

    def noted(jobs):  # type: ignore[no-untyped-def]
        analysed.extend(job.payload.span.start for job in jobs)
        return step(jobs)

    (vad,) = (stage for stage in server.pack.stages if stage.spec.name == "vad")
    step = vad.step
    vad.step = noted  # type: ignore[method-assign]
    for n in range(20):
        late = ns_from_ms(100 if n % 2 == 0 else 0)
        session.actor.hear(np.zeros(512, np.int16), MonoNs(server.world.now() + late))
    server.advance(500)
    assert len(analysed) == 20 and analysed == sorted(analysed)
    server.check()
