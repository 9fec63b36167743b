import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.config import PacingSettings
from duplex.pacing.admission import admit
from duplex.pacing.lead import JitterMeter, lead_target
from duplex.pacing.urgency import Urgency, rank
from duplex.payloads import Pace
from duplex.units import MonoNs, ns_from_ms, samples_from_ms

pytestmark = pytest.mark.unit
NOW = MonoNs(10**10)
UNIT = ns_from_ms(50)
FIRST = ns_from_ms(1000)


def at(ms: float) -> MonoNs:
    return MonoNs(NOW + ns_from_ms(ms))


def rank_of(pace: Pace) -> tuple[Urgency, int]:
    return rank(pace, NOW, UNIT, FIRST)


def test_the_classes_in_order() -> None:
    critical = rank_of(Pace(since=at(-5000), dry_at=at(40)))
    first = rank_of(Pace(since=at(-100)))
    paced = rank_of(Pace(since=at(-5000), dry_at=at(200), hold_until=at(-50)))
    speculative = rank_of(Pace(since=at(-100), speculative=True))
    ahead = Pace(since=at(-5000), dry_at=at(900), hold_until=at(500))
    held, spare = rank_of(ahead), rank(ahead, NOW, UNIT, FIRST, spare_ns=ns_from_ms(600))
    assert [each[0] for each in (critical, first, paced, spare, speculative, held)] == list(Urgency)
    assert critical < first < paced < spare < speculative < held
    assert rank(ahead, NOW, UNIT, FIRST, spare_ns=ns_from_ms(200)) == (Urgency.HELD, at(300))
    assert rank_of(Pace(since=at(-100), speculative=True, blocked=True))[0] is Urgency.HELD


def test_least_slack_first_among_critical_and_oldest_first_among_first() -> None:
    assert rank_of(Pace(since=NOW, dry_at=at(-20))) < rank_of(Pace(since=NOW, dry_at=at(10)))
    assert rank_of(Pace(since=at(-300))) < rank_of(Pace(since=at(-200)))


def test_first_audio_is_critical_once_its_deadline_nears() -> None:
    assert rank_of(Pace(since=at(-900)))[0] is Urgency.FIRST
    assert rank_of(Pace(since=at(-960)))[0] is Urgency.CRITICAL


@given(st.integers(-1000, 5000), st.integers(-1000, 5000))
def test_held_work_that_would_run_dry_is_never_held(dry_ms: int, hold_ms: int) -> None:
    urgency, _ = rank_of(Pace(since=NOW, dry_at=at(dry_ms), hold_until=at(hold_ms)))
    if dry_ms <= 50:
        assert urgency is Urgency.CRITICAL
    else:
        assert (urgency is Urgency.HELD) == (hold_ms > 0)


def test_the_lead_target_is_the_sum_of_what_can_go_wrong_with_a_floor() -> None:
    pacing = PacingSettings(client_buffer_ms=60, codec_unit_ms=80, lead_ms_min=200)
    assert lead_target(pacing, 0, 40, 120) == samples_from_ms(300)
    assert lead_target(pacing, 150, 0, 0) == samples_from_ms(350)


def test_the_jitter_meter_finds_the_95th_percentile() -> None:
    meter = JitterMeter(initial_ms=0)
    for i in range(4000):
        meter.observed(float(i * 37 % 100))
    assert 85 <= meter.p95_ms <= 100


def test_admission_refuses_before_harm_and_says_when_to_come_back() -> None:
    assert admit(live=3, sessions_max=4, ready=True).admitted
    full = admit(live=4, sessions_max=4, ready=True)
    assert (full.admitted, full.reason, full.retry_after_s > 0) == (False, "sessions_max", True)
    assert admit(live=0, sessions_max=4, ready=False).reason == "not_ready"
