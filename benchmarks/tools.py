"""How often the default thinker decides rightly on functions, what it fills in, and how long that takes (two or three minutes).

python -m benchmarks.tools

Fifteen requests ask for one of four functions, fifteen for none. They were written before the prompt was tried on them. The stage is
driven directly, as in a session whose first turn the request is.
"""

from __future__ import annotations

import json
import re
import time
from typing import Any

from duplex_models.local.options import parse
from duplex_models.local.think import Think

from benchmarks.report import quantiles, write
from duplex.payloads import Alive, Message, Payload, Prompt, StageError, TextDelta, Tool, Toolset
from loadgen.jobs import job
from tests.thinking import Given

_CEILING_S = 60.0
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "set_alarm": ("Set an alarm for a time of day.", {"time": {"type": "string"}}),
    "add_to_list": ("Add an item to the shopping list.", {"item": {"type": "string"}}),
    "get_route": ("Find the way to a place.", {"place": {"type": "string"}}),
    "set_temperature": (
        "Set the temperature of a room.",
        {"room": {"type": "string", "enum": ["kitchen", "bedroom", "office"]}, "degrees": {"type": "integer"}},
    ),
}
ASKED: tuple[tuple[str, str, str], ...] = (
    ("Wake me up at seven.", "set_alarm", "seven|7"),
    ("Set an alarm for half past six.", "set_alarm", "six|6"),
    ("I have to get up at eight tomorrow, please set the alarm.", "set_alarm", "eight|8"),
    ("Can you make sure I am awake at five?", "set_alarm", "five|5"),
    ("Put milk on the shopping list.", "add_to_list", "milk"),
    ("We need more bread, add it to the list.", "add_to_list", "bread"),
    ("Please remember to buy eggs.", "add_to_list", "egg"),
    ("Add two bottles of water to my shopping list.", "add_to_list", "water"),
    ("How do I get to the airport?", "get_route", "airport"),
    ("Show me the way to the station.", "get_route", "station"),
    ("Take me to the nearest hospital.", "get_route", "hospital"),
    ("What is the fastest way to the city hall?", "get_route", "city hall"),
    ("Make it twenty degrees in the bedroom.", "set_temperature", "bedroom"),
    ("It is too cold in the office, set it to 22 degrees.", "set_temperature", "office"),
    ("Set the kitchen to eighteen degrees.", "set_temperature", "kitchen"),
)
"""Request, function, and what its arguments should hold: one of these as a word, in the singular or the plural."""
OTHER: tuple[str, ...] = (
    "Good morning!", "What is the capital of Spain?", "Who wrote the Odyssey?", "I slept very well.", "Tell me a story.",
    "How many legs does a spider have?", "What is your name?", "That is very kind of you.", "Why is the sky blue?",
    "My brother is called Tom.", "What is three plus four?", "Do you know a good joke?", "See you later.",
    "Which language do they speak in Brazil?", "I do not understand.",
)  # fmt: skip


class _Timed(Given):
    """What the stage gave for one job, to its first words: no more is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.began = time.perf_counter()
        self.first_s = 0.0
        """Until its first output."""

    def emit(self, output: Payload | StageError) -> None:
        if not (self.outputs or isinstance(output, Alive)):
            self.first_s = time.perf_counter() - self.began
        super().emit(output)
        if isinstance(output, TextDelta):
            self.ended.set()

    @property
    def name(self) -> str | None:
        """What was called; None: nothing."""
        return self.calls[0].name if self.calls else None


def _toolset(choice: Any = "auto", named: str | None = None) -> Toolset:
    tools = tuple(
        Tool(
            name=name,
            description=description,
            parameters=json.dumps({"type": "object", "properties": members, "required": list(members)}),
        )
        for name, (description, members) in TOOLS.items()
    )
    return Toolset(tools=tools, choice=choice, named=named)


class _Thinker:
    def __init__(self) -> None:
        self._stage = Think(parse({"sessions": 1}, 2))
        self._stage.load(print)

    def ask(self, text: str, toolset: Toolset) -> _Timed:
        given = _Timed()
        prompt = Prompt(messages=(Message(role="user", text=text),), tokens_max=60, toolset=toolset)
        asked = job(prompt, session=text)
        self._stage.submit(asked, given.emit)
        assert given.ended.wait(_CEILING_S), "the thinker did not end"
        self._stage.abort(asked.id)
        self._stage.release(asked.address.session)
        return given

    def close(self) -> None:
        self._stage.close()


def _valid(given: _Timed) -> bool:
    """Return whether the arguments parse and have the members that the schema asks for, of its types."""
    if given.name is None or not given.calls[-1].last:
        return False
    members = TOOLS[given.name][1]
    arguments = json.loads(given.arguments)
    kinds = {"string": str, "integer": int}
    return set(arguments) == set(members) and all(
        isinstance(arguments[name], kinds[member["type"]]) and arguments[name] in member.get("enum", [arguments[name]])
        for name, member in members.items()
    )


def _holds(given: _Timed, words: str) -> bool:
    """Return whether the arguments hold one of the words that were said."""
    return re.search(rf"\b({words})s?\b", given.arguments.lower()) is not None


def _share(hits: int, n: int) -> str:
    return f"{hits} of {n}"


def main() -> None:
    """Measure and write."""
    thinker = _Thinker()
    thinker.ask("Hello", _toolset())  # reads the tools
    asked = [thinker.ask(text, _toolset()) for text, _, _ in ASKED]
    other = [thinker.ask(text, _toolset()) for text in OTHER]
    forced = [thinker.ask(text, _toolset("required")) for text, _, _ in ASKED]
    named = [thinker.ask(text, _toolset("named", name)) for text, name, _ in ASKED]
    without = [thinker.ask(text, Toolset()) for text in OTHER]
    thinker.close()
    calls = [given for given in (*asked, *other, *forced, *named) if given.name is not None]
    names = [name for _, name, _ in ASKED]
    filled = [_holds(given, words) for given, (_, _, words) in zip(named, ASKED, strict=True)]
    right = [given.name == name for given, name in zip(asked, names, strict=True)]
    right_forced = [given.name == name for given, name in zip(forced, names, strict=True)]
    figures = {
        "needed, and called": _share(sum(given.name is not None for given in asked), len(asked)),
        "needed, and called the right one": _share(sum(right), len(asked)),
        "not needed, and not called": _share(sum(given.name is None for given in other), len(other)),
        "answered rightly, by the right call or by words": _share(
            sum(right) + sum(given.name is None for given in other), len(asked) + len(other)
        ),
        "required: called": _share(sum(given.name is not None for given in forced), len(forced)),
        "required: the right one": _share(sum(right_forced), len(names)),
        "the function is named: arguments that hold what was said": _share(sum(filled), len(names)),
        "calls whose arguments parse and keep to the schema": _share(sum(map(_valid, calls)), len(calls)),
        "errors": sum(given.error is not None for given in (*asked, *other, *forced, *named)),
        "first token with tools, words follow, ms": quantiles(
            [given.first_s for given in other if given.name is None], 1000
        ),
        "first token without tools, ms": quantiles([given.first_s for given in without], 1000),
        "calls": [[text, given.name, given.arguments] for (text, _, _), given in zip(ASKED, asked, strict=True)],
        "arguments of the named": [[text, given.arguments] for (text, _, _), given in zip(ASKED, named, strict=True)],
        "called without need": [
            [text, given.name] for text, given in zip(OTHER, other, strict=True) if given.name is not None
        ],
    }
    write("tools", figures)


if __name__ == "__main__":
    main()
