import pytest

from duplex.config import BargeInSettings
from duplex.session.backchannel import takes_the_floor, words_of

pytestmark = pytest.mark.unit
SETTINGS = BargeInSettings()


def interrupts(text: str, voiced_enough: bool = True) -> bool:
    return takes_the_floor(text, voiced_enough, SETTINGS.commands, SETTINGS.backchannels)


@pytest.mark.parametrize(
    "text", ["Okay.", "Mm-hmm.", "Uh-huh", "Yeah, yeah.", "Oh, I see.", "Got it!", "", "…", "Right."]
)
def test_backchannels_and_silence_do_not_take_the_floor(text: str) -> None:
    assert not interrupts(text)


@pytest.mark.parametrize("text", ["Wait.", "No, no.", "Okay, stop", "HOLD ON", "Excuse me…", "yeah but"])
def test_a_command_takes_it_however_short(text: str) -> None:
    assert interrupts(text, voiced_enough=False)


def test_other_words_take_it_once_there_was_voice_enough_to_say_them() -> None:
    assert interrupts("the blue one")
    assert not interrupts("the blue one", voiced_enough=False)
    assert interrupts("Yeah, the blue one.")


def test_words_are_lower_case_without_punctuation() -> None:
    assert words_of("Uh-huh, I don’t KNOW — 2 times_now.") == ("uh", "huh", "i", "don't", "know", "2", "times", "now")
    assert words_of("はい、そうです") == ("はい", "そうです")


def test_no_word_is_in_both_lists() -> None:
    assert not set(SETTINGS.commands) & set(SETTINGS.backchannels)
