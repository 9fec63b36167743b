import pytest

from duplex.config import UnfinishedSettings
from duplex.payloads import JobId
from duplex.session.effects import Observe, Outbox
from duplex.session.unfinished import Hold, Unfinished

pytestmark = pytest.mark.unit
SETTINGS = UnfinishedSettings()


def unfinished(text: str, **changes: object) -> bool:
    return Unfinished(SETTINGS.model_copy(update=changes)).shows_in(text)


@pytest.mark.parametrize(
    "text",
    ["Please set a timer for...", "And then I…", "On Monday,", "The list is:", "I went to –"],
)  # fmt: skip
def test_marks_of_what_goes_on(text: str) -> None:
    assert unfinished(text)
    assert not unfinished("Okay.", marks=SETTINGS.marks)


@pytest.mark.parametrize(
    "text",
    ["I need the", "Send it to my.", "Cats and?", "I did it because.", "Um.", "I think it's", "Tell her that I’m"],
)  # fmt: skip
def test_no_sentence_ends_with_these_words(text: str) -> None:
    assert unfinished(text)


@pytest.mark.parametrize(
    ("begun", "whole"),
    [
        ("Can you send the letter to?", "Who is the letter to?"),
        ("My name is.", "Yes, it is."),
        ("I would like.", "That is what I would like."),
        ("Could you tell me?", "Could you tell me where it is?"),
        ("My sister has.", "I think she has."),
        ("The reason I am calling is.", "Please do."),
    ],
)
def test_what_ends_some_sentences_ends_no_others(begun: str, whole: str) -> None:
    assert unfinished(begun)
    assert not unfinished(whole)


@pytest.mark.parametrize("text", ["If it rains tomorrow.", "When I was at?", "Although we are late"])
def test_a_clause_that_cannot_stand_alone(text: str) -> None:
    assert unfinished(text)


@pytest.mark.parametrize(
    "text",
    [
        "If it rains, we stay at home.",
        "When is it?",
        "When does the train leave?",
        "If possible.",
        "If it rains tomorrow we can all go to the museum instead.",
        "While you wait, read this.",
    ],
)
def test_a_clause_with_its_sentence_an_answer_and_a_question_stand_alone(text: str) -> None:
    assert not unfinished(text)


@pytest.mark.parametrize(
    "text",
    ["", "No.", "Yes please.", "What time is it?", "Tell me about the ocean.", "Turn it on.", "Come in.", "Yes, I am.", "Is",
     "Where are you from?", "Uh-huh.", "Okay.", "はい、そうです"],
)  # fmt: skip
def test_whole_turns_are_not_held(text: str) -> None:
    assert not unfinished(text)


def test_empty_lists_hold_nothing() -> None:
    names = [name for name, value in SETTINGS if isinstance(value, tuple)]
    for text in ("I need the", "Set it for...", "My name is", "If it rains tomorrow", "Send it to"):
        assert not unfinished(text, **dict.fromkeys(names, ()))


def test_a_hold_is_counted_once_a_pause_with_its_outcome() -> None:
    outbox = Outbox(lambda: JobId(1))
    hold = Hold(Unfinished(SETTINGS), outbox)
    assert hold.keeps("Send it to my") and hold.keeps("Send it to my")
    hold.over("resumed")
    assert not hold.keeps("Send it to my brother.")
    hold.over("ended")
    assert outbox.poll() == Observe(measure="duplex_turn_holds_total", value=1, labels={"outcome": "resumed"})
    assert outbox.poll() is None


def test_without_lists_of_its_language_nothing_is_held() -> None:
    hold = Hold(None, Outbox(lambda: JobId(1)))
    assert not hold.asks
    assert not hold.keeps("Send it to my")
