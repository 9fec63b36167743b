"""The idle timeout of server_vad: nobody has spoken since the last reply was heard, so the model is asked to.

    reply ▇▇▇▇▇▇▇▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁│ timeout_triggered, an empty turn is committed, the next reply
                 │◄── idle_timeout_ms ──►│
             heard to its end     a cough begins the time anew; a turn with words ends it, until the next reply

Source: `openai.types.realtime.InputAudioBufferTimeoutTriggered` (openai 3.57.0).
"""

from __future__ import annotations

from duplex.units import MonoNs, Samples, ns_from_ms


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

    def spoken(self) -> None:
        """The user has said something: only the next reply begins the time again."""
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
        self.spoken()
        return self._start
