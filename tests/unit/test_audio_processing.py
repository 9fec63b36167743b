"""Echo and noise processing: framing, alignment, what a session may ask for, and the real module where it is installed."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import numpy as np
import pytest
from duplex_models.sim import SimOptions, make

from duplex.actor.host import SessionHost
from duplex.config import MediaSettings, Settings
from duplex.media import processing
from duplex.media.processing import AudioProcessor, Processing, ProcessingUnavailable
from duplex.media.reference import Reference
from duplex.payloads import Int16Array
from duplex.protocol import WireProfile, initial
from duplex.protocol.errors import SessionRejected
from duplex.stages.contract import PackError
from duplex.units import Samples, samples_from_ms
from tests.speech import sentence_audio

pytestmark = pytest.mark.unit


class Echoed:
    """Gives what it gets, and keeps the reference that came with it."""

    def __init__(self) -> None:
        self.references: list[Int16Array] = []

    def hear(self, microphone: Int16Array, reference: Int16Array, delay_ms: int) -> Int16Array:
        self.references.append(reference)
        return microphone


@pytest.mark.parametrize("sizes", [(320,), (100, 7, 481), (1, 159), (512, 3)])
def test_any_framing_gives_the_same_audio(sizes: tuple[int, ...]) -> None:
    processor = AudioProcessor(Echoed(), Reference(1000), lambda: Samples(0), 0)
    pcm = np.arange(8000, dtype=np.int16)
    out, at, i = [], 0, 0
    while at < len(pcm):
        out.append(processor.push(pcm[at : at + sizes[i % len(sizes)]]))
        at, i = at + sizes[i % len(sizes)], i + 1
    whole = np.concatenate(out)
    assert len(pcm) - 160 < len(whole) <= len(pcm)
    assert (whole == pcm[: len(whole)]).all()


def test_the_reference_is_what_left_one_listeners_delay_ago() -> None:
    reference, module = Reference(1000), Echoed()
    processor = AudioProcessor(module, reference, lambda: samples_from_ms(60), 0)
    reference.sent(np.full(960, 900, np.int16), 0)
    processor.push(np.zeros(1600, np.int16))
    loud = [bool(each.any()) for each in module.references]
    assert loud == [False] * 6 + [True] * 2 + [False] * 2


def test_what_a_session_asks_for_is_taken_where_audio_is_processed() -> None:
    wire = {
        "type": "realtime", "audio": {"input": {"noise_reduction": {"type": "far_field"}}}, "duplex": {"echo_cancellation": True},
    }  # fmt: skip
    config = initial(WireProfile(processes_audio=True), session_id="sess", session=wire)
    assert config.noise_reduction
    assert config.echo_cancellation
    assert config.wire["audio"]["input"]["noise_reduction"] == {"type": "far_field"}
    assert config.wire["duplex"]["echo_cancellation"] is True


def test_it_is_off_by_default_and_refused_or_shown_as_off_where_audio_is_not_processed() -> None:
    plain = initial(WireProfile(processes_audio=True), session_id="sess")
    assert not plain.noise_reduction and not plain.echo_cancellation
    noise: dict[str, Any] = {"type": "realtime", "audio": {"input": {"noise_reduction": {"type": "near_field"}}}}
    assert initial(WireProfile(), session_id="sess", session=noise).wire["audio"]["input"]["noise_reduction"] is None
    with pytest.raises(SessionRejected) as refused:
        initial(WireProfile(), session_id="sess", session={"duplex": {"echo_cancellation": True}})
    assert refused.value.param == "session.duplex.echo_cancellation"


async def test_a_server_that_cannot_offer_it_does_not_start_and_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "livekit.rtc", None)
    with pytest.raises(ProcessingUnavailable, match=r"pip install 'duplex\[apm\]'"):
        processing.load()
    settings = Settings(media=MediaSettings(processing="apm"))
    with pytest.raises(PackError, match=r"media.processing: .*duplex\[apm\]"):
        SessionHost(settings, make(SimOptions(vad="level")), lambda measure, value, labels: None)


@pytest.mark.skipif(importlib.util.find_spec("livekit") is None, reason="needs the extra apm")
@pytest.mark.parametrize("noise", [False, True])
def test_the_real_module_takes_the_echo_out(noise: bool) -> None:
    sent = np.concatenate([sentence_audio(0), sentence_audio(3)])
    late = 120 * 16 + 320
    microphone = np.zeros(len(sent), np.int16)
    microphone[late:] = sent[:-late] // 10
    reference = Reference(1000)
    module = processing.load()(Processing(echo=True, noise=noise))
    processor = AudioProcessor(module, reference, lambda: samples_from_ms(60), 0)
    out = []
    for at in range(0, len(sent) - 320, 320):
        out.append(processor.push(microphone[at : at + 320]))
        reference.sent(np.repeat(sent[at : at + 320], 3), at + 320)
    after, before = (np.sqrt((pcm[16_000:].astype(float) ** 2).mean()) for pcm in (np.concatenate(out), microphone))
    assert after < before / 10
