"""The echo gate on recorded speech: what comes back is known, a voice is heard."""

from __future__ import annotations

import numpy as np
import pytest

from duplex.config import EchoSettings
from duplex.media.echo_gate import HISTORY, EchoGate, reference_ms
from duplex.media.reference import Reference
from duplex.payloads import Int16Array
from tests.speech import sentence_audio

pytestmark = pytest.mark.unit
WINDOW = 512
PACKET = 320


def speech(*numbers: int, db: float = 0.0) -> np.ndarray:
    pcm = np.concatenate([sentence_audio(number) for number in numbers]).astype(float)
    return pcm * (10 ** (db / 20) * 3000 / np.sqrt((pcm**2).mean()))


def judged(
    sent: np.ndarray, voice: np.ndarray, echo_db: float | None, delay_ms: int
) -> tuple[list[bool | None], EchoGate]:
    """Return whether each window is echo (None: it is quiet): `sent` comes back, `voice` is there besides, in a quiet room."""
    settings = EchoSettings()
    reference = Reference(reference_ms(settings))
    gate = EchoGate(settings, reference)
    n = len(voice)
    room = np.random.default_rng(1).standard_normal(n) * 58  # −55 dBFS
    back = np.zeros(n)
    if echo_db is not None:
        late = delay_ms * 16 + PACKET
        played = sent[: n - late] * 10 ** (echo_db / 20)
        back[late : late + len(played)] = played
    microphone = np.rint(voice + back + room).clip(-32768, 32767).astype(np.int16)
    verdicts: list[bool | None] = []
    for at in range(PACKET, n, PACKET):
        packet = sent[at - PACKET : at]
        if len(packet) == PACKET:
            reference.sent(np.repeat(np.rint(packet).astype(np.int16), 3), at)
        for end in range((at - PACKET) // WINDOW * WINDOW + WINDOW, at + 1, WINDOW):
            if end <= at - PACKET or end < HISTORY:
                continue
            heard = microphone[end - HISTORY : end]
            verdicts.append((gate.listens(end) and gate.is_echo(heard, end)) if loud(microphone, end) else None)
    return verdicts, gate


def loud(microphone: Int16Array, end: int) -> bool:
    return bool(np.sqrt((microphone[end - WINDOW : end].astype(float) ** 2).mean()) > 100)


@pytest.mark.parametrize("delay_ms", [50, 120, 250, 480])
@pytest.mark.parametrize("echo_db", [-10, -20])
def test_the_echo_of_what_was_sent_is_no_voice(echo_db: float, delay_ms: int) -> None:
    sent = speech(0, 3)
    verdicts, gate = judged(sent, np.zeros(len(sent)), echo_db, delay_ms)
    loud_ones = [verdict for verdict in verdicts if verdict is not None]
    assert len(loud_ones) > 50
    assert sum(loud_ones) >= 0.9 * len(loud_ones)
    assert gate.lag_ms == pytest.approx(delay_ms + 20, abs=20)


def test_a_voice_over_a_reply_without_echo_is_a_voice() -> None:
    sent, voice = speech(0, 3), speech(6, 10)
    n = min(len(sent), len(voice))
    verdicts, _ = judged(sent[:n], voice[:n], None, 0)
    loud_ones = [verdict for verdict in verdicts if verdict is not None]
    assert len(loud_ones) > 100
    assert sum(loud_ones) <= 0.02 * len(loud_ones)


def test_a_voice_ten_decibels_over_the_echo_is_heard() -> None:
    sent = speech(0, 3, 10)
    voice = np.zeros(len(sent))
    begin = len(sent) // 2
    said = speech(6, db=-10)
    said = said[np.flatnonzero(np.abs(said) > 200)[0] :][: len(sent) - begin]
    voice[begin : begin + len(said)] = said
    verdicts, _ = judged(sent, voice, -20, 120)
    first = begin // WINDOW - HISTORY // WINDOW
    assert sum(verdict is False for verdict in verdicts[first - 30 : first]) <= 3
    assert sum(verdict is False for verdict in verdicts[first : first + 13]) >= 7, "of 400 ms, 224 are a voice to it"


def test_silence_that_was_sent_explains_nothing() -> None:
    voice = speech(6)
    verdicts, gate = judged(np.zeros(len(voice)), voice, None, 0)
    assert not any(verdicts)
    assert gate.lag_ms is None


def test_it_listens_until_the_echo_of_the_last_sound_is_over() -> None:
    reference = Reference(2000)
    gate = EchoGate(EchoSettings(delay_ms_max=600, tail_ms=300), reference)
    assert not gate.listens(0)
    reference.sent(np.full(960, 900, np.int16), 16_000)
    assert gate.listens(16_320 + 900 * 16)
    assert not gate.listens(16_321 + 900 * 16)


def test_the_reference_holds_what_left_where_it_left_and_silence_between() -> None:
    reference = Reference(100)
    reference.sent(np.repeat(np.arange(1, 321, dtype=np.int16), 3), 320)
    reference.sent(np.full(960, 7, np.int16), 960)
    kept = reference.read(320, 1280)
    assert kept[:320].tolist() == list(range(1, 321))
    assert not kept[320:640].any()
    assert (kept[640:] == 7).all()
    assert not reference.read(1280, 2000).any()
    assert not reference.read(10_000, 10_100).any(), "what is older than the ring is forgotten"
