"""The talkers' network: seeded, in order unless it reorders, and the same for the same seed."""

from __future__ import annotations

import random

import pytest

from duplex.units import MonoNs, ns_from_ms, ns_from_seconds
from loadgen.live.impairment import DatagramPath, StreamPath, outage
from loadgen.live.options import Network

pytestmark = pytest.mark.unit
NEVER = (MonoNs(0), MonoNs(0))
SENT = [MonoNs(ns_from_ms(20 * n + 1)) for n in range(5000)]


def datagrams(network: Network, seed: int = 1, down: tuple[MonoNs, MonoNs] = NEVER) -> list[MonoNs | None]:
    path = DatagramPath(network, down, random.Random(seed))
    return [path.arrival(now) for now in SENT]


def test_an_ideal_network_does_nothing() -> None:
    assert Network().ideal
    assert datagrams(Network()) == SENT


def test_the_same_seed_gives_the_same_network_and_another_another() -> None:
    bad = Network(loss=0.1, jitter_ms=20, reorder=0.05)
    assert datagrams(bad) == datagrams(bad)
    assert datagrams(bad) != datagrams(bad, seed=2)


def test_so_many_are_lost() -> None:
    lost = datagrams(Network(loss=0.1)).count(None)
    assert 400 < lost < 600


def test_jitter_delays_within_bounds_and_keeps_the_order() -> None:
    arrivals = [a for a in datagrams(Network(jitter_ms=10)) if a is not None]
    assert arrivals == sorted(arrivals)
    delays = [arrival - sent for sent, arrival in zip(SENT, arrivals, strict=True)]
    assert min(delays) >= 0
    assert max(delays) <= ns_from_ms(40)
    assert sum(delays) / len(delays) == pytest.approx(ns_from_ms(10) * 0.8, rel=0.1)


def test_reordered_packets_are_overtaken_and_the_others_are_not_held_up() -> None:
    arrivals = datagrams(Network(reorder=0.1))
    overtaken = sum(a is not None and b is not None and a > b for a, b in zip(arrivals, arrivals[1:], strict=False))
    assert 350 < overtaken < 650
    assert sum(arrival == sent for sent, arrival in zip(SENT, arrivals, strict=True)) == pytest.approx(4500, abs=150)


def test_a_link_that_is_down_loses_datagrams_and_stops_a_stream() -> None:
    network = Network(drop_link_s=2)
    down = outage(network, MonoNs(0), random.Random(3))
    assert down[1] - down[0] == ns_from_seconds(2)
    lost = [sent for sent, arrival in zip(SENT, datagrams(network, down=down), strict=True) if arrival is None]
    assert len(lost) == 100
    assert down[0] <= lost[0] and lost[-1] < down[1]
    stream = StreamPath(network, down, random.Random(3))
    arrivals = [stream.arrival(now) for now in SENT]
    assert arrivals == sorted(arrivals)
    assert {a for s, a in zip(SENT, arrivals, strict=True) if down[0] <= s < down[1]} == {
        MonoNs(down[1] + ns_from_ms(200))
    }


def test_a_stream_loses_nothing_but_time() -> None:
    stream = StreamPath(Network(loss=0.05), NEVER, random.Random(1))
    arrivals = [stream.arrival(now) for now in SENT]
    assert arrivals == sorted(arrivals)
    assert max(a - s for s, a in zip(SENT, arrivals, strict=True)) == ns_from_ms(200)
