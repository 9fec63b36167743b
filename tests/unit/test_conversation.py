import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.payloads import Message
from duplex.session.conversation import Conversation, Item, ItemError, SpokenText, messages_of
from duplex.units import Samples, samples_from_ms

pytestmark = pytest.mark.unit


def spoken(words: list[str], ends: list[int], complete: bool = True) -> SpokenText:
    text = SpokenText(text=" ".join(words) + ".", audio=Samples(ends[-1] + 500), complete=complete)
    at = 0
    for word, end in zip(words, ends, strict=True):
        at += len(word)
        text.word(at, Samples(end))
        at += 1
    return text


def test_heard_text_ends_at_the_last_word_that_was_heard_whole() -> None:
    text = spoken(["one", "two", "three"], [1000, 2000, 3000])
    assert [text.heard(Samples(at)) for at in (0, 999, 1000, 2999, 3000, 3499)] == [
        "", "", "one", "one two", "one two three", "one two three",
    ]  # fmt: skip
    assert text.heard(Samples(3500)) == "one two three."
    assert text.word_start(Samples(2500)) == 2000


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=40), st.integers(0, 200_000), st.integers(0, 5000))
def test_more_playback_never_means_less_heard(gaps: list[int], at: int, more: int) -> None:
    ends = [sum(gaps[: i + 1]) for i in range(len(gaps))]
    text = spoken([f"w{i}" for i in range(len(gaps))], ends)
    assert text.heard(Samples(at + more)).startswith(text.heard(Samples(at)))


def conversation(*texts: str) -> Conversation:
    conv = Conversation(items_max=10)
    for i, text in enumerate(texts):
        conv.add(Item(id=f"i{i}", role="user", modality="text", text=text))
    return conv


def test_items_go_where_the_client_says() -> None:
    conv = conversation("a", "b")
    assert conv.add(Item(id="first", role="system", modality="text", text="s"), after="root") is None
    assert conv.add(Item(id="mid", role="user", modality="text", text="m"), after="i0") == "i0"
    assert conv.add(Item(id="last", role="user", modality="text", text="z")) == "i1"


@pytest.mark.parametrize(
    ("act", "code", "param"),
    [
        (lambda c: c.get("nope"), "item_not_found", "item_id"),
        (lambda c: c.delete("nope"), "item_delete_invalid_item_id", "item_id"),
        (
            lambda c: c.add(Item(id="i0", role="user", modality="text", text="x")),
            "item_create_duplicate_item_id",
            "item.id",
        ),
        (
            lambda c: c.add(Item(id="n", role="user", modality="text", text="x"), after="nope"),
            "item_not_found",
            "previous_item_id",
        ),
        (lambda c: c.truncate("i0", 0, Samples(0)), "invalid_truncate", "item_id"),
        (lambda c: c.truncate("said", 1, Samples(0)), "invalid_truncate", "content_index"),
        (lambda c: c.truncate("said", 0, Samples(9999)), "invalid_truncate", "audio_end_ms"),
    ],
)
def test_a_wrong_use_names_its_parameter_and_changes_nothing(act, code: str, param: str) -> None:  # type: ignore[no-untyped-def]
    conv = conversation("a", "b")
    said = Item(id="said", role="assistant", modality="audio", text=None, spoken=spoken(["x", "y"], [100, 200]))
    conv.add(said)
    before = messages_of(conv.items(), "")
    with pytest.raises(ItemError) as error:
        act(conv)
    assert (error.value.code, error.value.param) == (code, param)
    assert messages_of(conv.items(), "") == before


def test_history_holds_what_was_heard_and_joins_turns_of_one_role() -> None:
    conv = conversation("hello", "are you there")
    said = Item(
        id="said", role="assistant", modality="audio", text=None, spoken=spoken(["yes", "I", "am"], [100, 200, 300])
    )
    conv.add(said)
    conv.truncate("said", 0, Samples(250))
    unheard = Item(
        id="cut", role="assistant", modality="audio", text=None, spoken=spoken(["never"], [100]), heard=Samples(0)
    )
    conv.add(unheard)
    assert messages_of(conv.items(), "be brief") == (
        Message(role="system", text="be brief"),
        Message(role="user", text="hello are you there"),
        Message(role="assistant", text="yes I"),
    )


def test_at_the_bound_the_oldest_is_forgotten() -> None:
    conv = conversation(*"abcdefghijkl")
    assert len(conv) == 10
    with pytest.raises(ItemError):
        conv.get("i1")


def test_the_history_with_words_that_are_not_committed_yet_is_what_it_will_be_with_them() -> None:
    for before in (["hello"], ["hello", "again"], [f"item {n}" for n in range(10)]):
        conv = conversation(*before)
        foreseen = messages_of(conv.items("and then"), "be kind")
        assert messages_of(conv.items(), "be kind") != foreseen
        conv.add(Item(id="new", role="user", modality="audio", text="and then"))
        assert messages_of(conv.items(), "be kind") == foreseen


@pytest.mark.parametrize(("end_ms", "heard"), [(1369, "x"), (1370, "x y.")])
def test_the_millisecond_in_which_the_audio_ends_is_not_past_its_end(end_ms: int, heard: str) -> None:
    """openai-agents rounds up what it has got, 1369.3 ms, before it cuts its clock down to that (`_get_audio_limits`)."""
    conv = conversation()
    audio = samples_from_ms(1369.3)
    text = spoken(["x", "y"], [100, audio])
    text.audio = audio
    said = Item(id="said", role="assistant", modality="audio", text=None, spoken=text)
    conv.add(said)
    conv.truncate("said", 0, samples_from_ms(end_ms))
    assert said.heard == min(samples_from_ms(end_ms), audio)
    assert said.heard_text() == heard


def test_the_millisecond_after_it_is() -> None:
    conv = conversation()
    text = spoken(["x"], [100])
    text.audio = samples_from_ms(1369.3)
    conv.add(Item(id="said", role="assistant", modality="audio", text=None, spoken=text))
    with pytest.raises(ItemError, match=r"past the end of the audio \(1369 ms\)"):
        conv.truncate("said", 0, samples_from_ms(1371))
