"""The idle timeout of server_vad: nobody has spoken since the last reply was heard, so the model is asked to.

    reply ▇▇▇▇▇▇▇▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁│ timeout_triggered, an empty turn is committed, the next reply
                 │◄── idle_timeout_ms ──►│    while a function call runs it is the client's turn: the time begins behind its result
             heard to its end     a cough begins the time anew; a turn with words ends it, until the next reply,
                                  and so does a session without the timeout: switched on again, it does not fire at once

Source: `openai.types.realtime.InputAudioBufferTimeoutTriggered` (openai 3.57.0).
"""

from __future__ import annotations

from duplex.session.config import Greeting
from duplex.session.ear import Ear
from duplex.session.lifetime import Lifetime
from duplex.session.replies import Replies
from duplex.session.shared import Shared
from duplex.units import MonoNs, Samples, ns_from_ms


class Idle:
    """Has the model speak when nobody does.

    Args:
        shared: the session.
        ear: hears whether anybody speaks; the silence is committed there.
        replies: of the model.
        lifetime: bounds it.
    """

    def __init__(self, shared: Shared, ear: Ear, replies: Replies, lifetime: Lifetime) -> None:
        self._shared = shared
        self._ear = ear
        self._replies = replies
        self._lifetime = lifetime
        self._timer = IdleTimer()

    @property
    def _timeout_ms(self) -> int | None:
        detection = self._shared.config.turn_detection
        return None if detection is None or self._shared.traits.tick_mode else detection.idle_timeout_ms

    def look(self, now: MonoNs) -> None:
        """Note whether anything is going on."""
        if self._timeout_ms is None:
            self._timer.disarm()
            return
        shared, ear = self._shared, self._ear
        busy = self._replies.awaited or self._replies.away or self._lifetime.over or ear.hearing
        conversation = shared.conversation
        quiet = not (busy or ear.committing or conversation.awaits_transcript() or conversation.awaits_result())
        self._timer.look(playing=shared.lane.alive, quiet=quiet, position=ear.watermark.position, now=now)

    def spoken(self) -> None:
        """The user has said something."""
        self._timer.disarm()

    def deadline(self) -> MonoNs | None:
        """Return when `speak_up` has something to do; None: not at any time that is known."""
        return self._timer.deadline(self._timeout_ms)

    def speak_up(self, now: MonoNs) -> None:
        """If the time is over: commit the silence, and have the model speak."""
        start = self._timer.take(self._timeout_ms, now)
        if start is not None:
            self._ear.time_out(start)
            self._replies.greet(Greeting(instructions=self._shared.settings.turn.idle_instructions), now)


class IdleTimer:
    """Follows one session."""

    def __init__(self) -> None:
        self._armed = False
        """A reply was heard, and nothing with words was said since."""
        self._since: MonoNs | None = None
        self._start = Samples(0)

    def look(self, *, playing: bool, quiet: bool, position: Samples, now: MonoNs) -> None:
        """Note how things stand.

        Args:
            playing: a reply is being made or played.
            quiet: nobody speaks, and nothing is waited for.
            position: of the input.
        """
        self._armed = self._armed or playing
        if playing or not quiet or not self._armed:
            self._since = None
        elif self._since is None:
            self._since, self._start = now, position

    def disarm(self) -> None:
        """Only the next reply begins the time again."""
        self._armed = False
        self._since = None

    def deadline(self, timeout_ms: int | None) -> MonoNs | None:
        """Return when the time is over; None: it does not run.

        Args:
            timeout_ms: of the session at this moment; None: it has none.
        """
        if self._since is None or timeout_ms is None:
            return None
        return MonoNs(self._since + ns_from_ms(timeout_ms))

    def take(self, timeout_ms: int | None, now: MonoNs) -> Samples | None:
        """Return the input position at which the last reply had ended, once, if the time is over."""
        deadline = self.deadline(timeout_ms)
        if deadline is None or now < deadline:
            return None
        self.disarm()
        return self._start
