"""A voice's end by its level."""

from __future__ import annotations

import numpy as np
import pytest

from duplex.media.voice_end import VoiceEnd, level_dbfs
from duplex.payloads import Int16Array

pytestmark = pytest.mark.unit


def window(dbfs: float) -> Int16Array:
    """Return a square wave of that level."""
    return (np.array([1, -1] * 256) * 32768 * 10 ** (dbfs / 20)).astype(np.int16)


def test_levels_are_in_db_below_full_scale() -> None:
    assert level_dbfs(window(-20)) == pytest.approx(-20, abs=0.1)
    assert level_dbfs(np.zeros(512, np.int16)) == -90


def test_a_window_far_below_the_voice_is_silence_whatever_the_vad_says() -> None:
    end = VoiceEnd(30, 0.35)
    assert [end.probability(window(level), 0.9) for level in (-20, -25, -49, -55, -90, -22)] == [
        0.9,
        0.9,
        0.9,
        0,
        0,
        0.9,
    ]


def test_under_noise_the_vads_word_stands() -> None:
    end = VoiceEnd(30, 0.35)
    assert [end.probability(window(level), 0.9) for level in (-20, -35, -45)] == [0.9, 0.9, 0.9]
    assert end.probability(window(-35), 0.2) == 0.2


def test_a_quieter_voice_is_heard_a_little_later() -> None:
    end = VoiceEnd(30, 0.35)
    end.probability(window(-10), 0.9)
    assert end.probability(window(-45), 0.9) == 0
    for _ in range(31):
        end.probability(window(-80), 0.01)
    assert end.probability(window(-45), 0.9) == 0.9


def test_it_can_be_turned_off() -> None:
    end = VoiceEnd(0, 0.35)
    assert [end.probability(window(level), 0.9) for level in (-20, -90)] == [0.9, 0.9]
