"""What of a long conversation the thinker is given: whole oldest turns go, the instructions stay.

    tokens of      /| /| /|     history bound
    the history   / |/ |/ |
                 /  |  |  |     kept share of it
                 └ the prompt grows at its end only, so the engine's cached prefix holds from one step to the next

A turn is what the user says and what answers it. Items of the system that stand before all turns are instructions; a later
one goes with its turn. A run of the user's items that is longer than the bound by itself loses its oldest items, and an
item that is longer its beginning. The conversation itself is not touched: every item can still be retrieved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from duplex.payloads import Message
from duplex.session.conversation import Item, messages_of

_BYTES_PER_TOKEN = 3.0
"""English has about 4.3, scripts whose letters take 3 bytes rarely fewer: an estimate that seldom counts too few."""
_TOKENS_PER_MESSAGE = 8
"""Around a message: its role, its start and its end."""
_WORD_CHARS_MAX = 40
"""A longer beginning without a space is no broken word: some scripts have no spaces."""
_ROOM_MIN = 64
"""Tokens of conversation that are given beside instructions of whatever length."""


def estimate_tokens(text: str) -> int:
    """Return roughly how many tokens a text has, seldom too few."""
    return int(len(text.encode()) / _BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextBound:
    """What a thinker reads at once, in tokens."""

    prompt_max: int
    """Instructions and conversation together; a reply has its room beside it."""
    history_max: int
    """The conversation alone."""
    count: Callable[[str], int] = estimate_tokens
    """Tokens of a text; called for each item of each prompt, on the session's thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trim:
    """A step that the beginning of the prompt has made."""

    first_item_id: str
    """Of the oldest item that is still given."""
    items: int
    """Left out by this step."""


class ContextWindow:
    """Where the prompts of one conversation begin.

    Args:
        bound: the thinker's; None takes any length.
        history_max: further bound on the conversation's tokens, by configuration; None: there is none.
        kept_share: of the bound, what is left after a step, 0..1.
    """

    def __init__(self, bound: ContextBound | None, history_max: int | None, kept_share: float) -> None:
        self._bound = bound
        self._history_max = history_max
        self._kept_share = kept_share
        self._first: Item | None = None

    def limit(self, history_max: int | None, kept_share: float) -> None:
        """Change the bounds that the window was made with: the client may choose them."""
        self._history_max = history_max
        self._kept_share = kept_share

    def overflows(self, items: Sequence[Item], instructions: str) -> bool:
        """Return whether `messages` would leave anything out that it has not left out before."""
        if self._bound is None:
            return False
        head, said = _split(items)
        room, count = self._room(head, instructions), self._bound.count
        start = self._place(said)
        longest = max((_cost(item.heard_text(), count) for item in said[start:]), default=0)
        return longest > room or self._start(said, room) != start

    def messages(self, items: Sequence[Item], instructions: str) -> tuple[Message, ...]:
        """Return the prompt over a conversation as heard; changes nothing, so a draft's is the turn's own.

        Args:
            items: of the conversation, in order, perhaps with a turn that is not committed yet.
            instructions: stand before all of it.
        """
        if self._bound is None:
            return messages_of(items, instructions)
        head, said = _split(items)
        room = self._room(head, instructions)
        kept = [_shortened(item, room, self._bound.count) for item in said[self._start(said, room) :]]
        return messages_of([*head, *kept], instructions)

    def step(self, items: Sequence[Item], instructions: str) -> Trim | None:
        """Let what `messages` leaves out be left out from now on; return what that changed."""
        if self._bound is None:
            return None
        head, said = _split(items)
        before = self._place(said)
        start = self._start(said, self._room(head, instructions))
        if start == before:
            return None
        self._first = said[start]
        return Trim(first_item_id=self._first.id, items=start - before)

    def _place(self, said: Sequence[Item]) -> int:
        """Return where the prompt began so far; from the beginning, if the client has deleted that item."""
        return next((i for i in range(len(said) - 1, -1, -1) if said[i] is self._first), 0)

    def _room(self, head: Sequence[Item], instructions: str) -> int:
        """Return how many tokens the conversation may have beside instructions and the system's first items."""
        bound = self._bound
        assert bound is not None, "without a bound there is no room to count"
        texts = [instructions, *(item.heard_text() for item in head)]
        left = bound.prompt_max - sum(_cost(text, bound.count) for text in texts)
        history_max = bound.history_max if self._history_max is None else min(bound.history_max, self._history_max)
        return max(_ROOM_MIN, min(history_max, left))

    def _start(self, said: Sequence[Item], room: int) -> int:
        """Return the first item that is given."""
        assert self._bound is not None
        start, length = self._place(said), 0
        behind: list[int] = []  # tokens from each item to the end, the last item first
        for item in reversed(said[start:]):
            length += min(_most_of(item, room), _cost(item.heard_text(), self._bound.count))
            behind.append(length)
        if length <= room:
            return start
        size = {i: behind[len(said) - 1 - i] for i in range(start, len(said))}
        turns = [i for i in _turns(said) if i > start]
        users = [i for i in size if said[i].role == "user"]
        kept = int(room * self._kept_share)
        for places, most in ((turns, kept), (turns[-1:], room), (users, kept), (users, room), (size, room)):
            fitting = [i for i in places if size[i] <= most]
            if fitting:
                return fitting[0]
        raise AssertionError("the last item alone fits")


def _split(items: Sequence[Item]) -> tuple[Sequence[Item], Sequence[Item]]:
    """Part the system's items before all turns from the rest."""
    first = next((i for i, item in enumerate(items) if item.role != "system"), len(items))
    return items[:first], items[first:]


def _turns(said: Sequence[Item]) -> list[int]:
    """Return where turns begin: at the first thing behind an answer that was heard."""
    places, answered = [0], False
    for i, item in enumerate(said):
        if not item.heard_text().strip():
            continue
        if item.role == "tool":
            continue  # it belongs to its call
        if answered and item.role != "assistant":
            places.append(i)
        answered = item.role == "assistant"
    return places


def _cost(text: str, count: Callable[[str], int]) -> int:
    return count(text) + _TOKENS_PER_MESSAGE if text.strip() else 0


def _most_of(item: Item, room: int) -> int:
    """Return how many tokens one item may have: what a function gave leaves room for the question behind it."""
    return room // 2 if item.kind == "function_call_output" else room


def _shortened(item: Item, room: int, count: Callable[[str], int]) -> Item:
    """Return an item with the part of its text that fits; itself, if all of it does.

    Of what was said the end is kept, from a word on; of what a function gave the beginning. Half a call is none.
    """
    text = item.heard_text()
    cost, tokens_max = _cost(text, count), _most_of(item, room)
    if cost <= tokens_max:
        return item
    if item.kind == "function_call":
        return replace(item, status="incomplete")
    given = item.kind == "function_call_output"
    while cost > tokens_max:
        keep = max(1, min(len(text) - 1, len(text) * (tokens_max - _TOKENS_PER_MESSAGE) // count(text)))
        text = text[:keep] if given else text[-keep:]
        cost = _cost(text, count)
    if given:
        return replace(item, text=text)
    broken, _, rest = text.partition(" ")
    whole = rest if rest and len(broken) <= _WORD_CHARS_MAX else text
    return Item(id=item.id, role=item.role, modality="text", text=whole)
