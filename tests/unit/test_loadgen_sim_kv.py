"""Where the thinker's contexts are, under each rule, and that the device never holds more than fits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.units import MonoNs, ns_from_ms
from loadgen.sim.kv import KvCache

pytestmark = pytest.mark.unit


def ms(value: float) -> MonoNs:
    return MonoNs(ns_from_ms(value))


LOAD_S = 0.001


def cache(kind: Any, limit: int = 1000) -> KvCache:
    """Contexts of 300 tokens (100 of them instructions): three fit."""
    kv = KvCache(kind, limit, LOAD_S, 100)
    for number, name in enumerate("abc"):
        assert think(kv, name, 200, ms(number)) == (300, 0.0)
    return kv


def think(kv: KvCache, session: str, tokens: int, now: MonoNs) -> tuple[int, float]:
    """A reply that is thought in no time."""
    begun = kv.begin(session, tokens, now)
    kv.end(session)
    return begun


def on_device(kv: KvCache) -> set[str]:
    return {name for name, context in kv._contexts.items() if context.on_device}


def test_keep_keeps_everything() -> None:
    kv = cache("keep", limit=1)
    think(kv, "d", 200, ms(10))
    assert on_device(kv) == {"a", "b", "c", "d"}
    assert think(kv, "a", 50, ms(20)) == (50, 0.0)
    assert (kv.loads, kv.preloads) == (0, 0)


def test_lru_offloads_who_was_used_longest_ago_and_waits_for_what_comes_back() -> None:
    kv = cache("lru")
    think(kv, "a", 0, ms(10))
    think(kv, "d", 200, ms(20))
    assert on_device(kv) == {"a", "c", "d"}
    kv.speech_began("b", ms(30))
    assert on_device(kv) == {"a", "c", "d"}  # it does not look ahead
    assert think(kv, "b", 50, ms(40)) == (50, pytest.approx(300 * LOAD_S))
    assert on_device(kv) == {"a", "b", "d"}
    assert (kv.loads, kv.preloads) == (1, 0)


def test_next_use_offloads_who_comes_back_last() -> None:
    kv = cache("next_use")
    for name, dry_ms in (("a", 2000), ("b", 9000), ("c", 4000)):
        kv.reply_until(name, ms(dry_ms))
    think(kv, "d", 200, ms(100))
    assert on_device(kv) == {"a", "c", "d"}


def test_next_use_learns_how_long_somebody_thinks() -> None:
    kv = cache("next_use")
    now = 0.0
    for _ in range(20):  # b answers after 10 s each time, the others are believed to take three
        kv.reply_until("b", ms(now))
        now += 10_000
        kv.speech_began("b", ms(now))
    for name, dry_ms in (("a", now + 4000), ("b", now), ("c", now + 4000)):
        kv.reply_until(name, ms(dry_ms))
    think(kv, "d", 200, ms(now + 100))
    assert on_device(kv) == {"a", "c", "d"}


def test_next_use_brings_a_context_back_while_its_user_speaks() -> None:
    kv = cache("next_use")
    for name, dry_ms in (("a", 2000), ("b", 9000), ("c", 4000)):
        kv.reply_until(name, ms(dry_ms))
    think(kv, "d", 200, ms(100))
    kv.speech_began("b", ms(1000))
    assert "b" in on_device(kv) and kv.preloads == 1
    reading, waited = think(kv, "b", 50, ms(1100))  # it takes 300 ms
    assert (reading, waited) == (50, pytest.approx(0.2))
    assert kv.loads == 0
    kv.speech_began("b", ms(2000))
    assert kv.preloads == 1  # it is there
    assert think(kv, "b", 50, ms(9000))[1] == 0.0


def test_a_released_context_frees_its_room() -> None:
    kv = cache("lru")
    kv.release("a")
    think(kv, "d", 200, ms(20))
    assert on_device(kv) == {"b", "c", "d"}
    kv.release("nobody")
    kv.grow("nobody", 5)
    kv.speech_began("nobody", ms(30))
    kv.reply_until("nobody", ms(30))


def test_a_context_whose_reply_is_being_thought_stays_and_growth_counts() -> None:
    kv = cache("lru")
    kv.begin("a", 0, ms(5))  # the last used but one, and busy
    kv.grow("a", 300)
    assert on_device(kv) == {"a", "c"} and kv._on_device == 900
    kv.end("a")
    think(kv, "d", 200, ms(20))
    assert on_device(kv) == {"a", "d"}


acts = st.lists(
    st.tuples(st.sampled_from(["begin", "speech", "until", "release"]), st.sampled_from("abcdef"), st.integers(0, 400)),
    max_size=60,
)


@given(acts, st.sampled_from(["lru", "next_use"]))
def test_the_device_never_holds_more_than_fits_but_for_the_one_in_use(
    acts: list[tuple[str, str, int]], kind: Any
) -> None:
    kv = KvCache(kind, 1000, LOAD_S, 100)
    for number, (act, name, amount) in enumerate(acts):
        now = ms(number * 100)
        match act:
            case "begin":
                think(kv, name, amount, now)
                assert name in on_device(kv)
            case "speech":
                kv.speech_began(name, now)
            case "until":
                kv.reply_until(name, MonoNs(now + amount * 1_000_000))
            case "release":
                kv.release(name)
        held = sum(context.tokens for context in kv._contexts.values() if context.on_device)
        assert kv._on_device == held
        assert held <= 1000 or len(on_device(kv)) == 1  # one context alone may be longer than all that fits
