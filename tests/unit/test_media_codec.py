"""G.711, whole-factor resampling, the two codecs behind one face, and when redundancy is worth its bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duplex.config import MediaSettings
from duplex.media import codec as codecs
from duplex.media import g711
from duplex.media.codec import AudioCodec
from duplex.media.loss import LossPolicy
from duplex.media.polyphase import Downsampler, Upsampler
from duplex.payloads import Int16Array
from duplex.units import MonoNs, ns_from_seconds

pytestmark = pytest.mark.unit

CODECS = [
    AudioCodec(name="opus", payload_type=111, clock_rate=48_000),
    AudioCodec(name="PCMU", payload_type=0, clock_rate=8_000),
    AudioCodec(name="PCMA", payload_type=8, clock_rate=8_000),
]


def tone(hz: float, rate: int, seconds: float) -> Int16Array:
    return np.asarray(10_000 * np.sin(2 * np.pi * hz * np.arange(round(rate * seconds)) / rate), dtype=np.int16)


def pitch_and_snr(pcm: Int16Array, rate: int) -> tuple[float, float]:
    power = np.abs(np.fft.rfft(pcm * np.hanning(len(pcm)))) ** 2
    top = int(np.argmax(power))
    near = power[max(top - 6, 0) : top + 7].sum()
    return top * rate / len(pcm), float(10 * np.log10(near / (power.sum() - near)))


def test_g711_codes_are_the_standards() -> None:
    known = np.array([0, 32_124, -32_124, 8, -8], dtype=np.int16)
    assert g711.encode(known, g711.Law.MU).hex() == "ff8000fe7e"
    assert g711.decode(b"\xff\x80\x00", g711.Law.MU).tolist() == [0, 32_124, -32_124]
    assert g711.decode(b"\xd5\xaa\x2a", g711.Law.A).tolist() == [8, 32_256, -32_256]


@pytest.mark.parametrize("law", g711.Law)
def test_every_g711_code_survives_and_every_sample_is_near(law: g711.Law) -> None:
    levels = g711.decode(bytes(range(256)), law)
    assert g711.decode(g711.encode(levels, law), law).tolist() == levels.tolist()
    samples = np.arange(-32_768, 32_768).astype(np.int16)
    error = np.abs(g711.decode(g711.encode(samples, law), law).astype(int) - samples)
    assert (error <= np.maximum(np.abs(samples.astype(int)) / 16, 16) + 1).all()


@given(cuts=st.lists(st.integers(1, 300), min_size=1, max_size=12))
@settings(max_examples=30, deadline=None)
def test_cutting_the_stream_changes_nothing(cuts: list[int]) -> None:
    pcm = tone(440, 8000, sum(cuts) / 8000)
    whole, pieces = Upsampler(2), Upsampler(2)
    joined = np.concatenate([pieces.feed(p) for p in np.split(pcm, np.cumsum(cuts)[:-1])])
    assert np.abs(joined.astype(int) - whole.feed(pcm)).max() <= 1
    wide = np.repeat(pcm, 6)
    whole_down, pieces_down = Downsampler(6), Downsampler(6)
    joined = np.concatenate([pieces_down.feed(p) for p in np.split(wide, 6 * np.cumsum(cuts)[:-1])])
    assert np.abs(joined.astype(int) - whole_down.feed(wide)).max() <= 1


def test_resampling_keeps_tones_clean_and_out_of_band_out() -> None:
    down = Downsampler(6).feed(tone(1000, 48_000, 1.0))
    assert len(down) == 8000
    hz, snr = pitch_and_snr(down[1000:], 8000)
    assert abs(hz - 1000) < 2
    assert snr > 60
    assert np.abs(Downsampler(6).feed(tone(6000, 48_000, 1.0))[1000:]).max() < 20
    up = Upsampler(2).feed(down)
    assert pitch_and_snr(up[2000:], 16_000)[1] > 60


def test_overload_saturates() -> None:
    square = np.where(np.arange(4800) // 240 % 2, 32_767, -32_768).astype(np.int16)
    down = Downsampler(6).feed(square)
    assert down.max() == 32_767
    assert down.min() == -32_768


@pytest.mark.parametrize("codec", CODECS, ids=lambda c: c.name)
def test_c05_a_tone_crosses_at_its_pitch(codec: AudioCodec) -> None:
    speaking, hearing = codecs.speaking(codec, MediaSettings()), codecs.hearing(codec)
    heard = []
    for frame in tone(1000, 48_000, 1.0).reshape(-1, 960):
        payload = speaking.encode(frame)
        assert hearing.duration(payload) == 960
        heard.append(hearing.decode(payload))
    pcm = np.concatenate(heard)
    assert len(pcm) == 16_000
    hz, snr = pitch_and_snr(pcm[4000:], 16_000)
    assert abs(hz - 1000) <= 10
    assert snr > 25


@pytest.mark.parametrize("codec", CODECS, ids=lambda c: c.name)
def test_losses_are_filled_to_the_sample_and_fade(codec: AudioCodec) -> None:
    speaking, hearing = codecs.speaking(codec, MediaSettings()), codecs.hearing(codec)
    payloads = [speaking.encode(f) for f in tone(300, 48_000, 0.4).reshape(-1, 960)]
    for payload in payloads:
        last = hearing.decode(payload)
    assert len(hearing.recover(payloads[-1], 960)) == 320
    concealed = [hearing.conceal(960) for _ in range(8)]
    assert [len(c) for c in concealed] == [320] * 8
    assert np.abs(concealed[-1]).max() < np.abs(last).max() / 3


@pytest.mark.parametrize("codec", CODECS, ids=lambda c: c.name)
def test_an_empty_payload_is_refused(codec: AudioCodec) -> None:
    with pytest.raises(codecs.CodecError):
        codecs.hearing(codec).duration(b"")


def test_nothing_is_a_payload_that_announces_silence() -> None:
    opus, pcmu, _ = CODECS
    speaking = codecs.speaking(opus, MediaSettings())
    speaking.encode(np.zeros(960, np.int16))
    nothing = speaking.nothing()
    assert nothing is not None
    assert codecs.is_dtx(opus, nothing)
    assert len(codecs.hearing(opus).decode(nothing)) == 320
    assert codecs.speaking(pcmu, MediaSettings()).nothing() is None
    assert not codecs.is_dtx(pcmu, b"\xff")


def test_fec_comes_with_loss_and_goes_ten_seconds_after_it() -> None:
    policy = LossPolicy(fec_loss_on=0.01)

    def at(seconds: float, loss: float) -> float | None:
        return policy.report(loss, MonoNs(ns_from_seconds(seconds)))

    assert at(0, 0.0) is None
    assert at(1, 0.01) is None
    assert at(2, 0.1) == pytest.approx(0.0525)
    for second in range(3, 16):
        assert at(second, 0.0) is not None  # decaying, then waiting
    assert [at(s, 0.0) is None for s in range(16, 20)][-1]
    assert not policy.on
    assert at(20, 0.2) is not None
