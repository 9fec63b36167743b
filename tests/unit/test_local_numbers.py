"""Numbers as words."""

from __future__ import annotations

import pytest
from duplex_models.local import numbers
from num2words import num2words

pytestmark = pytest.mark.unit


def _reference(n: int, **kind: str) -> str:
    """num2words' spelling, in the American manner: no commas and no `and`."""
    return str(num2words(n, **kind)).replace(",", "").replace(" and ", " ")


@pytest.mark.parametrize("n", [*range(130), 200, 999, 1000, 1001, 1234, 20_000, 1_000_000, 12_345_678, 10**14 + 1])
def test_cardinals_and_ordinals_agree_with_num2words(n: int) -> None:
    assert " ".join(numbers.cardinal(str(n))) == _reference(n)
    if n:
        assert " ".join(numbers.ordinal(str(n))) == _reference(n, to="ordinal")


@pytest.mark.parametrize("text", ["007", "1" * 16])
def test_leading_zeros_and_endless_numbers_are_read_digit_by_digit(text: str) -> None:
    assert numbers.cardinal(text) == numbers.digits(text)
    assert len(numbers.digits(text)) == len(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("3.14", "three point one four"),
        ("-5", "minus five"),
        ("1,234.05", "one thousand two hundred thirty-four point zero five"),
        ("0.5", "zero point five"),
    ],
)
def test_decimals(text: str, words: str) -> None:
    assert " ".join(numbers.decimal(text)) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1984", "nineteen eighty-four"),
        ("1900", "nineteen hundred"),
        ("1905", "nineteen oh five"),
        ("2000", "two thousand"),
        ("2005", "two thousand five"),
        ("2024", "twenty twenty-four"),
        ("1066", "ten sixty-six"),
    ],
)
def test_years(text: str, words: str) -> None:
    assert " ".join(numbers.year(text)) == words


def test_decades() -> None:
    assert numbers.decade("1980") == ["nineteen", "eighties"]
    assert numbers.decade("1900") == ["nineteen", "hundreds"]


def test_only_fractions_with_a_short_name_are_named() -> None:
    assert numbers.fraction("1", "2") == ["one", "half"]
    assert numbers.fraction("3", "4") == ["three", "quarters"]
    assert numbers.fraction("3", "17") is None
    assert numbers.fraction("5", "4") is None
