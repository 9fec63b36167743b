"""Text as a model writes it → words that a voice can say, each with its place in that text. Pure.

    "It costs **$25.50** (see [here](https://x.org))."
     It costs  twenty-five dollars and fifty cents, see here.
     ─2 ─8                              … ─19       ─25 ─31      ends in the text, for words heard

A scanner tries the rules of `RULES` in order at every place of the text; what no rule takes (emoji, brackets, other
scripts) is not spoken. Several spoken words of one written one (an amount, an address) carry one end, on their last.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from duplex_models.local import numbers

_LETTERS_MAX = 40
"""A longer run of letters is not a word; its first letters are said."""
_WORDS_MAX = 200
"""Spoken words of one clause; the rest is left unsaid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenWord:
    """One word for the voice."""

    text: str
    """ASCII letters, apostrophes, hyphens or dotted initials; then at most one mark of `.,!?;:`."""
    end: int | None
    """Characters of the text up to the end of the written word; None inside one that takes several spoken words."""


Say = Callable[[re.Match[str]], list[str] | None]
"""The words for a match; None lets the next rule try."""

_MONTHS = (
    "January February March April May June July August September October November December"
).split()  # fmt: skip
_CURRENCIES = {
    "$": ("dollar", "cent"),
    "€": ("euro", "cent"),
    "£": ("pound", "penny"),
    "¥": ("yen", ""),
}
_UNITS = {
    "km": "kilometer", "m": "meter", "cm": "centimeter", "mm": "millimeter", "mi": "mile", "ft": "foot", "kg": "kilogram",
    "g": "gram", "mg": "milligram", "lb": "pound", "lbs": "pound", "oz": "ounce", "l": "liter", "L": "liter",
    "ml": "milliliter", "mL": "milliliter", "mph": "mile per hour", "km/h": "kilometer per hour",
    "m/s": "meter per second", "kB": "kilobyte", "KB": "kilobyte", "MB": "megabyte", "GB": "gigabyte", "TB": "terabyte",
    "Hz": "hertz", "kHz": "kilohertz", "MHz": "megahertz", "GHz": "gigahertz", "W": "watt", "kW": "kilowatt",
    "kWh": "kilowatt hour", "V": "volt", "ms": "millisecond", "sec": "second", "min": "minute", "hr": "hour",
    "hrs": "hour", "°C": "degree Celsius", "°F": "degree Fahrenheit", "°": "degree", "%": "percent",
}  # fmt: skip
_UNCHANGED = {"percent", "hertz", "kilohertz", "megahertz", "gigahertz", "yen"}
_ABBREVIATIONS = {
    "Mr.": "Mister", "Mrs.": "Missus", "Ms.": "Miss", "Dr.": "Doctor", "Prof.": "Professor", "St.": "Saint",
    "e.g.": "for example", "i.e.": "that is", "etc.": "et cetera", "vs.": "versus", "approx.": "approximately",
    "No.": "number", "Jr.": "Junior", "Sr.": "Senior", "Inc.": "Incorporated", "Ltd.": "Limited", "Ph.D.": "Ph.D.",
    "PhD": "Ph.D.", "a.m.": "a.m.", "p.m.": "p.m.",
}  # fmt: skip
_SYMBOLS = {
    "&": "and", "+": "plus", "=": "equals", "×": "times", "÷": "divided by", "≈": "about", "<": "less than",
    ">": "more than", "≤": "at most", "≥": "at least", "±": "plus or minus", "→": "to", "½": "one half",
    "⅓": "one third", "¼": "one quarter", "¾": "three quarters", "π": "pie", "@": "at", "%": "percent", "°": "degrees",
    "$": "dollars", "€": "euros", "£": "pounds", "™": "", "©": "", "®": "",
}  # fmt: skip
_IN_ADDRESSES = {".": "dot", "@": "at", "/": "slash", "-": "dash", "_": "underscore", ":": "colon", "?": "question mark",
                 "=": "equals", "&": "and", "#": "hash", "+": "plus", "%": "percent", "~": "tilde"}  # fmt: skip
_MARKS = {**{c: c for c in ".,!?;:"}, "…": ".", "—": ",", "–": ",", "(": ",", ")": ",", "\n": ","}
_STRENGTH = " ,:;.!?"
"""Of two marks in one place the later in this order is kept."""

_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_SCALE = r"(?:thousand|million|billion|trillion)\b|[KkMB](?![A-Za-z])"
_SCALE_NAMES = {"K": "thousand", "k": "thousand", "M": "million", "B": "billion"}


def _plural(words: list[str], one: bool) -> list[str]:
    """Return a unit's words for one or for many: the first word takes the s."""
    head, *rest = words
    if one or head in _UNCHANGED:
        return words
    irregular = {"foot": "feet", "penny": "pence"}.get(head)
    last = head if rest and rest[-1] == "hour" and head == "kilowatt" else irregular or f"{head}s"
    return [last, *rest] if last != head else [head, *[f"{w}s" for w in rest]]


def _money(m: re.Match[str]) -> list[str]:
    major, minor = _CURRENCIES[m["currency"]]
    scale = m["scale"]
    if scale:
        return [*numbers.decimal(m["amount"]), _SCALE_NAMES.get(scale, scale), *_plural([major], one=False)]
    whole, _, cents = m["amount"].replace(",", "").partition(".")
    if not minor or len(cents) not in (0, 2):
        return [*numbers.decimal(m["amount"]), *_plural([major], one=m["amount"] == "1")]
    words = [*numbers.cardinal(whole), *_plural([major], one=whole == "1")] if int(whole) or not int(cents or 0) else []
    if int(cents or 0):
        spoken_cents = [*numbers.cardinal(str(int(cents))), *_plural([minor], one=int(cents) == 1)]
        words += ["and", *spoken_cents] if words else spoken_cents
    return words


def _date(year: str, month: str, day: str) -> list[str] | None:
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return None
    return [_MONTHS[int(month) - 1], *numbers.ordinal(str(int(day))), *numbers.year(year)]


def _time(m: re.Match[str]) -> list[str] | None:
    hour, minute, half = int(m["hour"]), m["minute"], (m["half"] or "").replace(".", "").lower()
    if hour > 24 or (half and not 1 <= hour <= 12) or (minute is None and not half):
        return None
    words = numbers.cardinal(str(hour))
    if minute is not None and minute != "00":
        words += ["oh", *numbers.cardinal(minute[1])] if minute[0] == "0" else numbers.cardinal(minute)
    elif not half:
        words += ["o'clock"] if 1 <= hour <= 12 else ["hundred", "hours"]
    return [*words, f"{half[0]}.m."] if half else words


def _unit(m: re.Match[str]) -> list[str]:
    amount = m["amount"]
    return [*numbers.decimal(amount), *_plural(_UNITS[m["unit"]].split(), one=amount.lstrip("+-−") == "1")]


def _fraction(m: re.Match[str]) -> list[str] | None:
    if int(m[2]) == 0:
        return None
    return numbers.fraction(m[1], m[2])


def _range(m: re.Match[str]) -> list[str]:
    return [*_plain_number(m[1]), "to", *_plain_number(m[2])]


def _plain_number(text: str) -> list[str]:
    is_year = len(text) == 4 and text.isdigit() and "1000" <= text <= "2099"
    return numbers.year(text) if is_year else numbers.decimal(text)


def _address(m: re.Match[str]) -> list[str]:
    """Spell a mail or web address: its words, and the names of the signs between them."""
    text = re.sub(r"^(?:https?://)?(?:www\.)?", "", m[0]).rstrip("/")
    words: list[str] = []
    for part in re.findall(r"[A-Za-z]+|[0-9]+|.", text):
        if part.isdigit() and part.isascii():
            words += numbers.cardinal(part)
        elif part.isalpha() and part.isascii():
            words.append(_letters(part))
        else:
            words += _IN_ADDRESSES.get(part, "").split()
    return words


def _word(m: re.Match[str]) -> list[str] | None:
    """A word of letters, or of letters and digits, as parts that the pronouncing dictionary can take."""
    folded = unicodedata.normalize("NFKD", m[0].replace("’", "'").replace("ß", "ss"))
    ascii_only = folded.encode("ascii", "ignore").decode()
    words: list[str] = []
    for part in re.findall(r"[A-Za-z]+(?:['-][A-Za-z]+)*|[0-9]+", ascii_only):
        words += numbers.cardinal(part) if part.isdigit() else [_letters(part)]
    return words or None


def _letters(part: str) -> str:
    return part if len(part) <= _LETTERS_MAX else part[:_LETTERS_MAX]


def _version(m: re.Match[str]) -> list[str]:
    first, *rest = m[0].split(".")
    return numbers.cardinal(first) + [word for part in rest for word in ("point", *numbers.cardinal(part))]


def _spelled(letters: str) -> list[str]:
    return ["ay" if letter in "aA" else letter.upper() for letter in letters]


def _initials(m: re.Match[str]) -> list[str]:
    return [m[0] if m[0].endswith(".") else f"{m[0]}."]


def _rule(pattern: str, say: Say) -> tuple[re.Pattern[str], Say]:
    return re.compile(pattern), say


_HALF = r"(?P<half>[AaPp]\.?[Mm]\b\.?)"
_HOST = r"(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\.){1,4}(?:com|org|net|edu|gov|io|ai|dev|app|info|co|uk|de|eu|me|us)\b"
_UNIT_NAMES = "|".join(sorted((re.escape(u) for u in _UNITS), key=len, reverse=True))

RULES: tuple[tuple[re.Pattern[str], Say], ...] = (
    _rule(r"!?\[([^\[\]\n]{0,300})\]\([^()\s]{0,500}\)", lambda m: None),  # a link: handled by the scanner
    _rule(r"[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,4}[A-Za-z]{2,10}", _address),
    _rule(r"https?://[^\s<>\"'`)\]]{1,500}(?<![.,!?;:])", _address),
    _rule(r"(?:www\.)?" + _HOST + r"(?:/[A-Za-z0-9._~/-]{0,200}(?<![.,!?;:]))?", _address),
    _rule(r"(\d{4})-(\d{2})-(\d{2})\b", lambda m: _date(m[1], m[2], m[3])),
    _rule(r"(\d{1,2})/(\d{1,2})/(\d{4})\b", lambda m: _date(m[3], m[1], m[2])),
    _rule(rf"(?P<hour>\d{{1,2}})(?::(?P<minute>[0-5]\d))?(?:\s?{_HALF})?(?![\d:])", _time),
    _rule(rf"(?P<currency>[$€£¥])\s?(?P<amount>{_NUMBER})(?:\s?(?P<scale>{_SCALE}))?", _money),
    _rule(r"(\d{4})s\b", lambda m: numbers.decade(m[1]) if m[1][3] == "0" else None),
    _rule(r"(\d+)(?:st|nd|rd|th)\b", lambda m: numbers.ordinal(m[1])),
    _rule(r"(?:\+\d{1,3}[ -])?(?:\(\d{3}\) ?|\d{3}[ -])?\d{3}-\d{4}(?![-\d])", lambda m: numbers.digits(m[0])),
    _rule(r"(\d)['’](\d{1,2})[\"”]", lambda m: [*numbers.cardinal(m[1]), "foot", *numbers.cardinal(m[2])]),
    _rule(r"\d{1,4}(?:\.\d{1,4}){2,4}(?![.\d])", _version),
    _rule(rf"(?P<amount>[-−]?(?:{_NUMBER}))\s?(?P<unit>{_UNIT_NAMES})(?![A-Za-z0-9])", _unit),
    _rule(r"(\d{1,4})/(\d{1,4})(?![\d/])", _fraction),
    _rule(rf"({_NUMBER})[-–]({_NUMBER})(?![\w-])", _range),
    _rule(r"(?<=\d )[-−*/](?= \d)", lambda m: {"*": ["times"], "/": ["divided", "by"]}.get(m[0], ["minus"])),
    _rule(rf"(?<![\w)])[-−](?:{_NUMBER})", lambda m: numbers.decimal(m[0])),
    _rule(rf"({_NUMBER})(?![\w])", lambda m: _plain_number(m[1])),
    _rule("|".join(re.escape(a) for a in sorted(_ABBREVIATIONS, key=len, reverse=True)) + r"(?!\w)",
          lambda m: _ABBREVIATIONS[m[0]].split()),
    _rule(r"(?:[A-Za-z]\.){2,6}(?!\w)", _initials),
    _rule(r"([A-Z]{1,3})&([A-Z]{1,3})\b", lambda m: [*_spelled(m[1]), "and", *_spelled(m[2])]),
    _rule(r"(?:C\+\+|C#)(?!\w)", lambda m: ["C", "plus", "plus"] if m[0] == "C++" else ["C", "sharp"]),
    _rule(r"#(?=\d)", lambda m: ["number"]),
    _rule(r"[^\W_](?:[^\W_]|['’-](?=[^\W\d_]))*", _word),
    _rule("[" + re.escape("".join(_SYMBOLS)) + "]", lambda m: _SYMBOLS[m[0]].split()),
)  # fmt: skip
"""Tried in this order at every place of the text."""
_LINK = RULES[0][0]


def speakable(text: str) -> tuple[SpokenWord, ...]:
    """Return the words to say for a clause, oldest first; none where nothing in it can be said."""
    words: list[SpokenWord] = []
    _scan(text, 0, len(text), words)
    return tuple(words[:_WORDS_MAX])


def _scan(text: str, start: int, stop: int, words: list[SpokenWord]) -> None:
    index = start
    while index < stop:
        link = _LINK.match(text, index, stop)
        if link is not None:
            _scan(text, link.start(1), link.end(1), words)
            index = link.end()
            continue
        match, said = _first_rule(text, index, stop)
        if match is not None:
            words += [SpokenWord(text=word, end=None) for word in said[:-1]]
            words += [SpokenWord(text=word, end=match.end()) for word in said[-1:]]
            index = match.end()
            continue
        _mark(text, index, words)
        index += 1


def _first_rule(text: str, index: int, stop: int) -> tuple[re.Match[str] | None, list[str]]:
    if text[index].isspace():
        return None, []
    for pattern, say in RULES[1:]:
        match = pattern.match(text, index, stop)
        if match is not None:
            said = say(match)
            if said is not None:
                return match, said
    return None, []


def _mark(text: str, index: int, words: list[SpokenWord]) -> None:
    """Put a punctuation mark behind the last word, or keep the stronger of two."""
    mark = _MARKS.get(text[index])
    if text[index] == "-" and text[index - 1 : index + 2] == " - ":
        mark = ","
    if mark is None or not words:
        return
    last = words[-1]
    old = last.text[-1] if last.text[-1] in ",:;!?" or (last.text[-1] == "." and "." not in last.text[:-1]) else " "
    if _STRENGTH.index(mark) > _STRENGTH.index(old):
        bare = last.text if old == " " else last.text[:-1]
        words[-1] = SpokenWord(text=bare + mark, end=last.end)
