"""The talkers' ears: the jitter buffer model of a browser, the player of a WebSocket client, and what is audible."""

from __future__ import annotations

import numpy as np
import pytest

from duplex.units import MonoNs, ns_from_ms
from loadgen.live.answer import Answer
from loadgen.live.ear import DelayTarget, Ear
from loadgen.live.player import Player
from loadgen.live.sound import SILENT, Level, Sound, level_of

pytestmark = pytest.mark.unit

LOUD = Level((0.0, 1.0), True)


def at(ms: float) -> MonoNs:
    return MonoNs(1_000_000_000 + ns_from_ms(ms))


def ms_of(sound: Sound) -> tuple[float, float]:
    return (sound.start - at(0)) / 1e6, (sound.end - at(0)) / 1e6


def hear(ear: Ear, arrivals: dict[int, float], until_ms: float, silent: frozenset[int] = frozenset()) -> list[Sound]:
    """Play packets by number, each arriving at its time in ms, with a look every 5 ms."""
    sounds: list[Sound] = []
    waiting = sorted((ms, number) for number, ms in arrivals.items())
    for step in range(int(until_ms / 5) + 1):
        while waiting and waiting[0][0] <= step * 5:
            ms, number = waiting.pop(0)
            ear.arrive(number & 0xFFFF, number * 960 & 0xFFFFFFFF, SILENT if number in silent else LOUD, 1, at(ms))
        sounds += ear.advance(at(step * 5))
    return sounds


def test_a_quiet_network_is_heard_one_packet_behind_and_without_a_gap() -> None:
    sounds = hear(Ear(), {n: 20.0 * n for n in range(50)}, 1100)
    assert ms_of(sounds[0]) == (20.0, 40.0)
    assert [s.start for s in sounds[1:]] == [s.end for s in sounds[:-1]]
    assert len(sounds) == 50


def test_a_late_packet_delays_what_follows_and_the_gap_is_as_long_as_it_was_late() -> None:
    arrivals = {n: 20.0 * n + (150 if n >= 10 else 0) for n in range(20)}
    sounds = hear(Ear(), arrivals, 1000)
    gaps = [b.start - a.end for a, b in zip(sounds, sounds[1:], strict=False)]
    assert max(gaps) == ns_from_ms(130)  # 150 late, of which the buffer held 20
    assert sum(gap > 0 for gap in gaps) == 1


def test_a_lost_packet_is_concealed_and_costs_no_time() -> None:
    sounds = hear(Ear(), {n: 20.0 * n for n in range(20) if n != 7}, 500)
    made_up = [s for s in sounds if s.concealed]
    assert [ms_of(s) for s in made_up] == [(160.0, 180.0)]
    assert ms_of(sounds[-1])[1] == 20 * 21


def test_packets_that_overtake_each_other_play_in_order() -> None:
    arrivals = {n: 20.0 * n for n in range(20)} | {10: 20.0 * 11 + 1, 11: 20.0 * 11}
    sounds = hear(Ear(), arrivals, 500)
    assert not any(s.concealed for s in sounds)
    assert [s.start for s in sounds] == sorted(s.start for s in sounds)


def test_the_target_follows_jitter_up_and_down_again() -> None:
    target = DelayTarget()
    for n in range(200):
        target.take(ns_from_ms(70 if n % 10 == 0 else 0))
    deep = target.depth
    for _ in range(400):
        target.take(0)
    assert deep == ns_from_ms(80)
    assert target.depth == ns_from_ms(20)


def test_after_a_stall_the_depth_shrinks_within_speech_by_at_most_a_tenth() -> None:
    sounds = hear(Ear(), {n: max(20.0 * n, 420.0) if n >= 10 else 20.0 * n for n in range(150)}, 3300)
    lengths = {s.end - s.start for s in sounds}
    assert lengths == {ns_from_ms(20), ns_from_ms(18)}
    assert sounds[-1].end - at(20.0 * 149) < ns_from_ms(120)


def test_a_new_answer_after_silence_begins_one_target_after_it_came() -> None:
    quiet = frozenset(range(10, 20))
    sounds = hear(Ear(), {n: 20.0 * n for n in range(10)} | {n: 20.0 * n + 10 for n in range(10, 40)}, 1200, quiet)
    first = next(s for s in sounds if s.level.content and s.start > at(300))
    assert ms_of(first)[0] == 20.0 * 20 + 10 + 20


def test_sequence_numbers_and_timestamps_wrap() -> None:
    first = 65_530 + (0xFFFFFFFF // 960 // 65_536) * 65_536
    sounds = hear(Ear(), {first + n: 20.0 * n for n in range(30)}, 700)
    assert len(sounds) == 30
    assert not any(s.concealed for s in sounds)


def test_samples_in_are_played_lost_or_late() -> None:
    ear = Ear()
    arrivals = {n: 20.0 * n + (300 if n == 5 else 0) for n in range(40) if n % 13}
    sounds = hear(ear, arrivals, 2000)
    stats = ear.stats()
    assert stats.played == sum(not s.concealed for s in sounds)
    assert stats.played + stats.late == len(arrivals)
    assert stats.lost == sum(n % 13 == 0 for n in range(1, 39)) + stats.late
    assert ear.drained


def test_a_player_plays_deltas_in_order_at_real_time() -> None:
    player = Player()
    for _ in range(10):
        player.arrive("item", ns_from_ms(20), LOUD, 1, at(0))
    assert [ms_of(s) for s in player.advance(at(59))] == [(20.0, 40.0), (40.0, 60.0)]
    assert player.flush(at(70)) == ("item", 40)
    assert player.drained and player.flush(at(75)) is None


def test_a_flush_tells_what_of_the_item_was_heard_to_the_millisecond() -> None:
    player = Player()
    for item in ("a", "b"):
        for _ in range(5):
            player.arrive(item, ns_from_ms(20), LOUD, 1, at(0))
    player.advance(at(165))
    assert player.flush(at(165)) == ("b", 45)


def test_a_player_that_runs_dry_has_a_gap() -> None:
    player = Player()
    player.arrive("item", ns_from_ms(20), LOUD, 1, at(0))
    player.advance(at(30))
    player.arrive("item", ns_from_ms(20), LOUD, 1, at(100))
    assert [ms_of(s) for s in player.advance(at(130))] == [(120.0, 140.0)]


def test_levels_tell_audible_quiet_and_digital_silence_apart() -> None:
    tone = np.rint(3000 * np.sin(np.arange(320) * 0.3)).astype(np.int16)
    half = tone.copy()
    half[:160] = 0
    assert level_of(tone, 16_000) == Level((0.0, 1.0), True)
    assert level_of(half, 16_000) == Level((0.5, 1.0), True)
    assert level_of((tone // 1000).astype(np.int16), 16_000) == Level(None, True)
    assert level_of((tone // 1000).astype(np.int16), 16_000, silence_peak=8) == SILENT
    assert level_of(np.zeros(320, np.int16), 16_000) == SILENT


def answer_of(*sounds: Sound) -> Answer:
    answer = Answer(number=1, response="r")
    for sound in sounds:
        answer.add(sound)
    return answer


def sound(start: float, end: float, level: Level = LOUD, concealed: bool = False) -> Sound:
    return Sound(at(start), at(end), level, 1, concealed)


def test_a_gap_inside_an_answer_is_an_underrun_and_one_around_it_is_none() -> None:
    answer = answer_of(
        sound(0, 20, SILENT), sound(20, 40), sound(40, 200, SILENT), sound(200, 220), sound(220, 900, SILENT)
    )
    assert (answer.gaps, answer.gap_ns, answer.gap_ns_max) == (1, ns_from_ms(160), ns_from_ms(160))
    assert (answer.first, answer.last) == (at(20), at(220))


def test_quiet_sound_is_no_underrun_and_concealed_loss_is_told_apart() -> None:
    quiet = Level(None, True)
    answer = answer_of(sound(0, 20), sound(20, 400, quiet), sound(400, 440, SILENT, True), sound(440, 460))
    assert answer.gaps == 0
    assert answer.concealed_ns == ns_from_ms(40)


def test_silence_under_an_interrupting_voice_is_no_underrun() -> None:
    answer = Answer(number=1, response="r", talked_over_from=at(100))
    for one in (sound(0, 20), sound(200, 220)):
        answer.add(one)
    assert answer.gaps == 0
