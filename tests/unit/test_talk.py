"""The arithmetic of `duplex talk`: where speech ends, where sound begins, when a packet was heard."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from duplex.payloads import Int16Array
from duplex.talk import (
    RATE,
    Talk,
    TalkError,
    Timeline,
    end_of_energy,
    first_audible,
    read_recording,
    write_recording,
)

pytestmark = pytest.mark.unit


def tone(seconds: float, level: float = 0.5) -> Int16Array:
    t = np.arange(round(seconds * RATE)) / RATE
    return (np.sin(2 * np.pi * 440 * t) * level * 32767).astype(np.int16)


def silence(seconds: float) -> Int16Array:
    return np.zeros(round(seconds * RATE), np.int16)


def test_speech_ends_with_its_energy() -> None:
    recording = np.concatenate([silence(0.2), tone(0.5), silence(0.1), tone(0.3), silence(1.0)])
    assert end_of_energy(recording) == round(1.1 * RATE)
    assert end_of_energy(silence(1.0)) == 0
    assert end_of_energy(silence(0.0)) == 0


def test_what_is_far_under_the_loudest_is_no_speech() -> None:
    assert end_of_energy(np.concatenate([tone(0.5), tone(0.5, 0.005)])) == round(0.5 * RATE)


def test_the_first_audible_window_after_a_point() -> None:
    heard = np.concatenate([tone(0.1), silence(0.5), tone(0.1)])
    assert first_audible(heard, 0) == 0
    assert first_audible(heard, round(0.1 * RATE)) == round(0.6 * RATE)
    assert first_audible(heard, len(heard)) is None
    assert first_audible(silence(0.0), 0) is None


def packets(timeline: Timeline, first: int, arrivals: list[int], pcm: Int16Array) -> None:
    """Place packets of 20 ms with timestamps from `first` on, at the given arrivals."""
    for n, arrived in enumerate(arrivals):
        timeline.place(pcm[n * 960 : (n + 1) * 960], first + n * 960, arrived)


def test_packets_are_placed_by_their_timestamps_from_the_first_arrival_on() -> None:
    timeline, pcm = Timeline(), tone(0.06)
    packets(timeline, 5000, [4800, 4900, 5000], pcm)
    heard = timeline.render()
    assert not heard[:4800].any()
    assert np.array_equal(heard[4800:], pcm)


def test_a_late_packet_delays_what_follows() -> None:
    timeline, pcm = Timeline(), tone(0.06)
    packets(timeline, 0, [0, 960 + 480, 960 + 490], pcm)
    heard = timeline.render()
    assert not heard[960 : 960 + 480].any()
    assert np.array_equal(heard[960 + 480 :], pcm[960:])


def test_silence_lets_the_player_catch_up() -> None:
    timeline = Timeline()
    packets(timeline, 0, [0, 2000], tone(0.04))
    timeline.place(silence(0.02), 1920, 2960)
    timeline.place(tone(0.02), 2880, 3840)
    assert len(timeline.render()) == 3920 + 960
    timeline.place(silence(0.02), 9600, 9600)
    assert len(timeline.render()) == 9600 + 960


def test_recordings_come_back_as_they_were_written(tmp_path: Path) -> None:
    pcm = tone(0.25)
    write_recording(tmp_path / "a.wav", pcm)
    assert np.array_equal(read_recording(tmp_path / "a.wav"), pcm)


def test_what_is_no_recording_is_named(tmp_path: Path) -> None:
    with pytest.raises(TalkError, match="cannot read"):
        read_recording(tmp_path / "none.wav")
    (tmp_path / "text.wav").write_text("not audio")
    with pytest.raises(TalkError, match="cannot read"):
        read_recording(tmp_path / "text.wav")
    write_recording(tmp_path / "empty.wav", silence(0))
    with pytest.raises(TalkError, match="holds no audio"):
        read_recording(tmp_path / "empty.wav")


def test_the_report_leaves_the_audio_out() -> None:
    assert '"heard"' not in Talk(heard=tone(0.1)).to_json()
