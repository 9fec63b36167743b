"""Where the thinker's context of each session is: on the device, offloaded, or gone.

    keep      everything stays on the device, for comparison without a memory limit
    lru       over the limit the session that was used longest ago is offloaded, and brought back when it is next needed
    next_use  over the limit the session whose next use is expected last is offloaded; at the onset of its speech it is
              brought back while the user still talks (LiveServe's idea)

Next use is expected at the end of what the listener has still to hear, plus the session's usual gap (a moving average).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from duplex.units import MonoNs, ns_from_seconds

Kind = Literal["keep", "lru", "next_use"]
_GAP_SMOOTHING = 0.3


@dataclass(slots=True)
class _Context:
    tokens: int
    fresh: int
    """Tokens not read yet."""
    on_device: bool = True
    used: int = 0
    expected: int = 0
    gap_ns: int = ns_from_seconds(3.0)
    quiet_since: int | None = None
    replying: bool = False
    """Its reply is being thought: it stays."""
    loaded_at: int = 0
    """When a preload is done."""


class KvCache:
    """The contexts of all sessions.

    Args:
        kind: what is done over the limit.
        tokens_max: that fit on the device; 0: all.
        load_s_per_token: bringing one token's state back.
        instructions_tokens: every context begins with them.
    """

    def __init__(self, kind: Kind, tokens_max: int, load_s_per_token: float, instructions_tokens: int) -> None:
        self._kind = kind
        self._tokens_max = tokens_max if kind != "keep" else 0
        self._load_s = load_s_per_token
        self._instructions = instructions_tokens
        self._contexts: dict[str, _Context] = {}
        self._on_device = 0
        self.loads = 0
        """Contexts brought back while a reply waited for it."""
        self.preloads = 0

    def begin(self, session: str, tokens: int, now: MonoNs) -> tuple[int, float]:
        """A reply begins with so many new tokens; return the tokens to read, and the seconds of bringing the rest back."""
        context = self._context(session)
        context.fresh += tokens
        waited = 0.0
        if not context.on_device:
            waited = context.tokens * self._load_s
            self.loads += 1
            self._bring(context)
        elif context.loaded_at > now:
            waited = (context.loaded_at - now) / 1e9
        reading, context.fresh = context.fresh, 0
        context.used = now
        context.expected = now
        context.replying = True
        context.tokens += reading
        self._on_device += reading
        self._make_room(session)
        return reading, waited

    def tokens(self, session: str) -> int:
        """Return the length of a session's context."""
        context = self._contexts.get(session)
        return context.tokens if context is not None else 0

    def grow(self, session: str, tokens: int) -> None:
        """A reply has made tokens."""
        context = self._contexts.get(session)
        if context is not None:
            context.tokens += tokens
            if context.on_device:
                self._on_device += tokens
                self._make_room(session)

    def end(self, session: str) -> None:
        """A reply is thought to its end, or broken off."""
        context = self._contexts.get(session)
        if context is not None:
            context.replying = False

    def speech_began(self, session: str, now: MonoNs) -> None:
        """The user begins to speak: the context will be needed soon."""
        context = self._contexts.get(session)
        if context is None:
            return
        if context.quiet_since is not None:
            gap = max(0, now - context.quiet_since)
            context.gap_ns += round(_GAP_SMOOTHING * (gap - context.gap_ns))
        context.expected = now
        if self._kind == "next_use" and not context.on_device:
            self.preloads += 1
            context.loaded_at = now + ns_from_seconds(context.tokens * self._load_s)
            self._bring(context)
            self._make_room(session)

    def reply_until(self, session: str, dry_at: MonoNs) -> None:
        """The listener has something to hear until then."""
        context = self._contexts.get(session)
        if context is not None:
            context.quiet_since = dry_at
            context.expected = dry_at + context.gap_ns

    def release(self, session: str) -> None:
        """Forget a session."""
        context = self._contexts.pop(session, None)
        if context is not None and context.on_device:
            self._on_device -= context.tokens

    def _context(self, session: str) -> _Context:
        context = self._contexts.get(session)
        if context is None:
            context = self._contexts[session] = _Context(tokens=0, fresh=self._instructions)
        return context

    def _bring(self, context: _Context) -> None:
        context.on_device = True
        self._on_device += context.tokens

    def _make_room(self, but: str) -> None:
        if not self._tokens_max:
            return
        while self._on_device > self._tokens_max:
            others = [
                (name, c)
                for name, c in self._contexts.items()
                if c.on_device and c.tokens and name != but and not c.replying
            ]
            if not others:
                return
            if self._kind == "lru":
                _, victim = min(others, key=lambda each: (each[1].used, each[0]))
            else:
                _, victim = max(others, key=lambda each: (each[1].expected, each[0]))
            victim.on_device = False
            self._on_device -= victim.tokens
