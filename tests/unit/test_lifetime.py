"""A session's greatest length and its greeting, as arithmetic on `now`."""

from __future__ import annotations

import pytest

from duplex.config import ConfigError, SessionSettings, load
from duplex.session.config import Greeting
from duplex.session.greeting import Greeter, greeting_of
from duplex.session.lifetime import Due, Lifetime
from duplex.units import MonoNs

pytestmark = pytest.mark.unit
S = 1_000_000_000
HELLO = Greeting(text="Hello.")


def at(seconds: float) -> MonoNs:
    return MonoNs(round(seconds * S))


def test_each_thing_is_due_once_and_the_grace_lasts_while_something_plays() -> None:
    life = Lifetime(SessionSettings(length_s_max=100, ending_warning_s=30, ending_grace_s=10))
    assert life.deadline(playing=False) is None
    life.begin(at(5))
    life.begin(at(50))
    assert life.deadline(playing=True) == at(75)
    assert life.look(at(74), playing=True) is None
    assert (life.look(at(75), playing=True), life.left_s(at(75))) == (Due.WARNING, 30)
    assert life.look(at(80), playing=True) is None
    assert life.look(at(105), playing=True) is Due.LIMIT
    assert life.over
    assert (life.deadline(playing=True), life.deadline(playing=False)) == (at(115), at(105))
    assert life.look(at(110), playing=True) is None
    assert life.look(at(110), playing=False) is Due.END
    assert life.look(at(120), playing=False) is None


def test_a_warning_that_is_longer_than_the_session_comes_at_its_beginning() -> None:
    life = Lifetime(SessionSettings(length_s_max=20, ending_warning_s=30))
    life.begin(at(0))
    assert (life.look(at(0), playing=False), life.left_s(at(0))) == (Due.WARNING, 20)
    assert life.deadline(playing=False) == at(20)


def test_zero_is_no_bound() -> None:
    life = Lifetime(SessionSettings(length_s_max=0))
    life.begin(at(0))
    assert life.deadline(playing=False) is None
    assert life.look(at(10**7), playing=False) is None


def test_a_greeting_waits_for_the_connection_and_comes_once() -> None:
    greeter = Greeter(200)
    assert greeter.deadline(HELLO) is None
    greeter.configured(at(1))
    assert greeter.take(HELLO, True, at(1)) is None
    greeter.connected(at(2))
    assert (greeter.deadline(HELLO), greeter.deadline(None)) == (at(2.2), None)
    assert greeter.take(HELLO, True, at(2.1)) is None
    assert greeter.take(HELLO, True, at(2.2)) == HELLO
    greeter.connected(at(9))
    assert greeter.deadline(HELLO) is None
    assert greeter.take(HELLO, True, at(10)) is None


def test_a_conversation_that_has_begun_is_not_greeted_later_either() -> None:
    greeter = Greeter(200)
    greeter.connected(at(0))
    assert greeter.take(HELLO, False, at(1)) is None
    assert greeter.take(HELLO, True, at(2)) is None


def test_the_operator_gives_one_greeting_of_one_kind() -> None:
    assert greeting_of(SessionSettings()) is None
    assert greeting_of(SessionSettings(greeting_instructions="Greet.")) == Greeting(instructions="Greet.")
    with pytest.raises(ConfigError, match="give one of them"):
        load(session={"greeting_text": "Hi.", "greeting_instructions": "Greet."})
