"""What talkers say: lengths, pauses and labels of utterances made of recordings."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from duplex.media import opus
from duplex.talk import end_of_energy
from loadgen.live.options import OptionError
from loadgen.live.speech import PACKET, SILENCE, Bank, load
from loadgen.trace import Turn

pytestmark = pytest.mark.unit


@cache
def bank() -> Bank:
    """The recordings that come along."""
    return load(())


def turn(speech_s: float, pauses: tuple[tuple[float, float], ...] = ()) -> Turn:
    return Turn(gap_s=0, speech_s=speech_s, words=3, answer_words=3, pauses=pauses)


@pytest.mark.parametrize("speech_s", [0.02, 0.8, 2.37, 9.0, 30.0])
def test_an_utterance_is_as_long_as_the_trace_says(speech_s: float) -> None:
    said = bank().utterance(turn(speech_s), random.Random(1))
    assert abs(len(said.packets) * 0.02 - speech_s) < 0.011
    assert 0 <= said.begin < said.end <= len(said.packets) * PACKET


def test_pauses_are_silence_at_their_place() -> None:
    said = bank().utterance(turn(3.0, ((1.0, 0.4), (2.0, 0.2))), random.Random(1))
    silent = [n for n, packet in enumerate(said.packets) if packet == SILENCE]
    assert silent == [*range(50, 70), *range(100, 110)]


def test_the_labelled_end_is_that_of_the_audio() -> None:
    said = bank().utterance(turn(2.0), random.Random(2))
    decoder = opus.Decoder()
    packets = [bank().packets[n].opus for n in (*said.packets, *[SILENCE] * 10)]
    heard = np.repeat(np.concatenate([decoder.decode(packet) for packet in packets]), 3)
    assert abs(end_of_energy(heard) - said.end) <= PACKET  # Opus itself is 6.5 ms behind


def test_a_backchannel_is_short_and_voiced() -> None:
    said = bank().backchannel(0.2, random.Random(1))
    assert len(said.packets) == 10
    assert all(any(bank().packets[n].loud) for n in said.packets)


def test_the_same_seed_says_the_same() -> None:
    assert bank().utterance(turn(4.0), random.Random("a")) == bank().utterance(turn(4.0), random.Random("a"))


def test_a_recording_that_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "noise.wav"
    file.write_bytes(b"RIFF")
    with pytest.raises(OptionError, match=r"noise\.wav"):
        load((str(file),))
