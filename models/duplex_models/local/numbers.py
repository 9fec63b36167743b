"""Numbers as English words. Pure."""

from __future__ import annotations

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()
_SCALES = ("", "thousand", "million", "billion", "trillion")
_DIGITS_MAX = 3 * len(_SCALES)
_IRREGULAR = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
_FRACTIONS = {2: "half", 3: "third", 4: "quarter", 5: "fifth", 6: "sixth", 8: "eighth", 10: "tenth"}


def _below_thousand(n: int) -> list[str]:
    hundreds, rest = divmod(n, 100)
    words = [_ONES[hundreds], "hundred"] if hundreds else []
    if rest >= 20:
        tens, ones = divmod(rest, 10)
        words.append(_TENS[tens] + (f"-{_ONES[ones]}" if ones else ""))
    elif rest:
        words.append(_ONES[rest])
    return words


def digits(text: str) -> list[str]:
    """Return the digits of a text one by one, as one reads a telephone number."""
    return [_ONES[int(c)] for c in text if c.isdigit()]


def cardinal(text: str) -> list[str]:
    """Return a whole number as words: `1204` → one thousand two hundred four.

    Args:
        text: ASCII digits. A leading zero, or more than 15 digits, is read digit by digit.
    """
    if (len(text) > 1 and text[0] == "0") or len(text) > _DIGITS_MAX:
        return digits(text)
    n = int(text)
    if n == 0:
        return ["zero"]
    groups: list[list[str]] = []
    for scale in _SCALES:
        n, group = divmod(n, 1000)
        if group:
            groups.append(_below_thousand(group) + ([scale] if scale else []))
    return [word for group in reversed(groups) for word in group]


def ordinal(text: str) -> list[str]:
    """Return a whole number as an ordinal: `21` → twenty-first."""
    *head, last = cardinal(text)
    stem, hyphen, unit = last.rpartition("-")
    if unit in _IRREGULAR:
        unit = _IRREGULAR[unit]
    else:
        unit = f"{unit[:-1]}ieth" if unit.endswith("y") else f"{unit}th"
    return [*head, stem + hyphen + unit]


def decimal(text: str) -> list[str]:
    """Return a number with an optional sign, thousands commas and fraction: `-1,234.05` → minus … point zero five."""
    sign = ["minus"] if text[:1] in "-−" and text[:1] else []
    whole, point, fraction = text.lstrip("+-−").replace(",", "").partition(".")
    return [*sign, *cardinal(whole or "0"), *(["point", *digits(fraction)] if point and fraction else [])]


def year(text: str) -> list[str]:
    """Return a year of four digits as one says it: `1984` → nineteen eighty-four, `2005` → two thousand five."""
    high, low = text[:2], text[2:]
    if text[1:3] == "00" or high[0] == "0":
        return cardinal(text)
    if low == "00":
        return [*cardinal(high), "hundred"]
    return [*cardinal(high), *(["oh", _ONES[int(low)]] if low[0] == "0" else cardinal(low))]


def decade(text: str) -> list[str]:
    """Return a decade given by its first year: `1980` → nineteen eighties."""
    *head, last = year(text)
    return [*head, f"{last[:-1]}ies" if last.endswith("y") else f"{last}s"]


def fraction(numerator: str, denominator: str) -> list[str] | None:
    """Return a common fraction as words, or None for one that has no short name."""
    name = _FRACTIONS.get(int(denominator))
    if name is None or not 0 < int(numerator) < int(denominator):
        return None
    if int(numerator) == 1:
        return ["one", name]
    return [*cardinal(numerator), "halves" if name == "half" else f"{name}s"]
