"""The libopus binding."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duplex.media import opus
from duplex.payloads import Int16Array

pytestmark = pytest.mark.unit


def voiced(seconds: float) -> Int16Array:
    """A buzz with formants that libopus takes for speech."""
    t = np.arange(round(seconds * 48_000)) / 48_000
    pulses = sum(np.sin(2 * np.pi * 120 * k * t) / k for k in range(1, 30))
    return np.asarray(5000 * pulses * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * t)), dtype=np.int16)


def frames(pcm: Int16Array) -> list[Int16Array]:
    return list(pcm[: len(pcm) // 960 * 960].reshape(-1, 960))


def snr(reference: Int16Array, heard: Int16Array) -> float:
    n = min(len(reference), len(heard))
    x = reference[:n].astype(float)
    return float(10 * np.log10(np.sum(x**2) / (np.sum((heard[:n] - x) ** 2) + 1)))


def test_it_is_pyavs_own_libopus_even_without_a_systems() -> None:
    script = (
        "import ctypes.util\n"
        "ctypes.util.find_library = lambda name: None\n"
        "from duplex.media import opus\n"
        "print(opus.version())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("libopus 1.6")


def test_celt_by_default_and_silk_with_fec_under_loss() -> None:
    encoder = opus.Encoder(bitrate=32_000, complexity=5)
    said = frames(voiced(1.0))
    plain = [encoder.encode(f) for f in said]
    encoder.protect(0.05)
    protected = [encoder.encode(f) for f in said]
    encoder.protect(None)
    plain_again = [encoder.encode(f) for f in said]
    assert {p[0] >> 3 for p in plain} == {31}
    assert {p[0] >> 3 for p in protected[2:]} <= set(range(16))
    assert {p[0] >> 3 for p in plain_again[2:]} == {31}


def test_fec_brings_back_what_concealment_only_guesses() -> None:
    encoder = opus.Encoder(bitrate=32_000, complexity=5)
    encoder.protect(0.1)
    packets = [encoder.encode(f) for f in frames(voiced(3.0))]
    whole, recovering, guessing = opus.Decoder(), opus.Decoder(), opus.Decoder()
    reference, recovered, guessed = [], [], []
    for i, packet in enumerate(packets):
        reference.append(whole.decode(packet))
        guessed.append(guessing.conceal(960) if i % 10 == 9 else guessing.decode(packet))
        if i % 10 == 9 and i + 1 < len(packets):
            recovered.append(recovering.recover(packets[i + 1], 960))
        else:
            recovered.append(recovering.decode(packet))
    heard = np.concatenate(reference)
    assert snr(heard, np.concatenate(recovered)) > snr(heard, np.concatenate(guessed)) + 3


def test_c13_stereo_is_mixed_down_at_half_level() -> None:
    import av  # noqa: PLC0415 - only this test needs a stereo encoder

    codec = av.CodecContext.create("libopus", "w")
    codec.sample_rate, codec.format, codec.layout, codec.bit_rate = 48_000, "s16", "stereo", 96_000
    left = (8000 * np.sin(2 * np.pi * 440 * np.arange(48_000) / 48_000)).astype(np.int16)
    interleaved = np.stack([left, np.zeros_like(left)], axis=1).reshape(-1, 960 * 2)
    decoder, heard = opus.Decoder(), []
    for block in interleaved:
        frame = av.AudioFrame.from_ndarray(block.reshape(1, -1), format="s16", layout="stereo")
        frame.sample_rate = 48_000
        heard += [decoder.decode(bytes(packet)) for packet in codec.encode(frame)]
    pcm = np.concatenate(heard)[3200:]
    spectrum = np.abs(np.fft.rfft(pcm * np.hanning(len(pcm))))
    assert abs(np.argmax(spectrum) * 16_000 / len(pcm) - 440) <= 4.4
    assert abs(np.abs(pcm).max() / 4000 - 1) < 0.15


def test_all_durations_are_read_from_the_packet() -> None:
    assert opus.duration(bytes([16 << 3])) == 120  # CELT 2.5 ms
    assert opus.duration(bytes([31 << 3])) == 960
    assert opus.duration(bytes([31 << 3 | 1])) == 1920
    assert opus.duration(bytes([3 << 3])) == 2880
    assert opus.duration(bytes([3 << 3 | 3, 2])) == 5760  # 2 × 60 ms


@pytest.mark.parametrize("packet", [b"", b"\x03", bytes([3 << 3 | 3, 3]), bytes([3, 0])])
def test_impossible_packets_are_refused(packet: bytes) -> None:
    with pytest.raises(opus.OpusError):
        opus.duration(packet)
    with pytest.raises(opus.OpusError):
        opus.Decoder().decode(packet)


@given(packet=st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_bytes_decode_or_raise_and_the_decoder_lives(packet: bytes) -> None:
    decoder = opus.Decoder()
    try:
        pcm = decoder.decode(packet)
        assert 0 < len(pcm) <= 1920
    except opus.OpusError:
        pass
    good = opus.Encoder(bitrate=32_000, complexity=5).encode(np.zeros(960, np.int16))
    assert len(decoder.decode(good)) == 320


def test_lengths_that_cannot_be_concealed_are_refused() -> None:
    decoder = opus.Decoder()
    assert len(decoder.conceal(960)) == 320
    for samples in (0, 961, 5880):
        with pytest.raises(opus.OpusError):
            decoder.conceal(samples)
