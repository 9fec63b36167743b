"""Sessions of one caller at a time (C66)."""

from __future__ import annotations

import pytest

from duplex.server.seats import Seat, Seats, TooManySessionsError

pytestmark = pytest.mark.unit


def test_a_seat_is_free_again_when_its_session_has_ended() -> None:
    live: set[str] = set()
    seats = Seats(live.__contains__)
    first = seats.take({"key app": 2})
    second = seats.take({"key app": 2})
    with pytest.raises(TooManySessionsError):
        seats.take({"key app": 2})
    seats.give_back(first)
    seats.give_back(first)
    second.session_id = "rtc_1"
    live.add("rtc_1")
    seats.take({"key app": 2})
    with pytest.raises(TooManySessionsError):
        seats.take({"key app": 2})
    live.clear()
    seats.take({"key app": 2})
    assert len(seats) == 2


def test_each_caller_is_counted_for_itself_and_a_refusal_takes_nothing() -> None:
    seats = Seats(lambda session_id: True)
    seats.take({"key app": 3, "secret a": 1})
    with pytest.raises(TooManySessionsError):
        seats.take({"key app": 3, "secret a": 1})
    seats.take({"key app": 3, "secret b": 1})
    seats.take({"key app": 3, "secret c": 1})
    with pytest.raises(TooManySessionsError):
        seats.take({"key app": 3, "secret d": 1})
    assert len(seats) == 3
    assert isinstance(seats.take({}), Seat), "who is not counted is not bounded"


def test_what_is_kept_is_bounded_by_what_lives() -> None:
    seats = Seats(lambda session_id: False)
    for number in range(1000):
        seats.take({f"address {number}": 1}).session_id = f"rtc_{number}"
    assert len(seats) == 1
