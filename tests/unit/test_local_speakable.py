"""Written text → spoken words, and where each ends in the text."""

from __future__ import annotations

import re

import pytest
from duplex_models.local.speakable import speakable
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.unit

CASES = {
    "plain": ("Hello, world!", "Hello, world!"),
    "money": ("It costs $25.50.", "It costs twenty-five dollars and fifty cents."),
    "one": ("€1, £0.01 and $1", "one euro, one penny and one dollar"),
    "millions": ("$3.5 million", "three point five million dollars"),
    "thousands": ("$20K", "twenty thousand dollars"),
    "percent": ("12.5% off", "twelve point five percent off"),
    "time": ("at 7:30 pm or 7:05", "at seven thirty p.m. or seven oh five"),
    "o'clock": ("12:00", "twelve o'clock"),
    "hour": ("3 PM", "three p.m."),
    "iso date": ("2024-03-15", "March fifteenth twenty twenty-four"),
    "us date": ("3/15/2024", "March fifteenth twenty twenty-four"),
    "no date": ("13/45/2024", "thirteen forty-five twenty twenty-four"),
    "year": ("in 1984", "in nineteen eighty-four"),
    "decade": ("the 1980s", "the nineteen eighties"),
    "ordinals": ("1st, 22nd", "first, twenty-second"),
    "grouped": ("1,234,567", "one million two hundred thirty-four thousand five hundred sixty-seven"),
    "negative": ("-5 today", "minus five today"),
    "range": ("pages 3–4", "pages three to four"),
    "fraction": ("1/2 cup", "one half cup"),
    "units": ("5 km, 1 kg, 6 ft", "five kilometers, one kilogram, six feet"),
    "compound units": ("100 km/h, 2 kWh", "one hundred kilometers per hour, two kilowatt hours"),
    "temperature": ("72°F", "seventy-two degrees Fahrenheit"),
    "height": ("5'10\"", "five foot ten"),
    "phone": ("(212) 555-1234", "two one two five five five one two three four"),
    "version": ("2.0.1", "two point zero point one"),
    "sum": ("2 + 2 = 4", "two plus two equals four"),
    "minus": ("5 - 3 * 2", "five minus three times two"),
    "mail": ("john.smith@example.com", "john dot smith at example dot com"),
    "web": ("https://www.example.org/a-b.", "example dot org slash a dash b."),
    "bare host": ("See example.com.", "See example dot com."),
    "link": ("see [the docs](https://x.org/y)!", "see the docs!"),
    "bold": ("**very** _good_ `code`", "very good code"),
    "heading": ("# Title\nText", "Title, Text"),
    "bullets": ("- apples\n- figs", "apples, figs"),
    "numbered": ("1. Apples\n2. Figs", "one. Apples, two. Figs"),
    "fence": ("```python\nx = 1\n```", "python, x equals one,"),
    "snake": ("snake_case", "snake case"),
    "emoji": ("I 😀 love it", "I love it"),
    "acronym": ("NASA and FBI", "NASA and FBI"),
    "initials": ("the U.S. and e.g. this", "the U.S. and for example this"),
    "ampersand": ("AT&T", "ay T and T"),
    "titles": ("Dr. Smith vs. Mr. Fox", "Doctor Smith versus Mister Fox"),
    "mixed": ("GPT-4, H2O and mp3", "GPT four, H two O and mp three"),
    "languages": ("C++ and C#", "C plus plus and C sharp"),
    "accents": ("naïve café", "naive cafe"),
    "quotes": ("don’t “say” 'so'", "don't say so"),
    "dash": ("really—yes", "really, yes"),
    "ellipsis": ("well… then", "well. then"),
    "strongest": ("what?! (yes).", "what? yes."),
    "spaced mark": ("Hello !", "Hello!"),
}


@pytest.mark.parametrize(("text", "spoken"), CASES.values(), ids=CASES.keys())
def test_spoken_form(text: str, spoken: str) -> None:
    assert " ".join(word.text for word in speakable(text)) == spoken


@pytest.mark.parametrize("text", ["", "   ", "...", "😀🎉", "***", "日本語", "—", "___", "\n\n"])
def test_nothing_to_say(text: str) -> None:
    assert speakable(text) == ()


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("Hello, world!", [5, 12]),
        ("It costs $25.50 now", [2, 8, None, None, None, None, 15, 19]),
        ("see [the docs](https://x.org) here", [3, 8, 13, 34]),
        ("**bold** text", [6, 13]),
        ("naïve café", [5, 10]),
        ("at 7:30 pm", [2, None, None, 10]),
    ],
)
def test_every_written_word_ends_once_where_it_ends_in_the_text(text: str, ends: list[int | None]) -> None:
    assert [word.end for word in speakable(text)] == ends


ODD = st.text(
    st.one_of(st.sampled_from("aA1 .,-–:/@$%*_`[]()'\"\n°€😀é#&+<="), st.characters(blacklist_categories=["Cs"])),
    max_size=80,
)


@given(ODD)
def test_any_text_gives_sayable_words_with_growing_ends_inside_it(text: str) -> None:
    words = speakable(text)
    ends = [word.end for word in words if word.end is not None]
    assert ends == sorted(set(ends))
    assert all(0 < end <= len(text) for end in ends)
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z.'-]*[.,!?;:]?", word.text) for word in words)
    assert not words or words[-1].end is not None


def test_a_clause_without_end_is_bounded() -> None:
    assert len(speakable("12345 " * 5000)) <= 200
    assert len(speakable("a" * 100_000)[0].text) <= 40
