"""What a thinker gives for a job: text, function calls, or an error."""

from __future__ import annotations

import threading

from duplex.payloads import Alive, CallDelta, Payload, StageError, TextDelta


class Given:
    """What a thinker emits for one job, as it comes in."""

    def __init__(self) -> None:
        self.outputs: list[Payload | StageError] = []
        self.called = threading.Event()
        """A call has begun."""
        self.ended = threading.Event()

    def emit(self, output: Payload | StageError) -> None:
        """Take an output; called on the engine's thread. That it reads is no news."""
        if isinstance(output, Alive):
            return
        self.outputs.append(output)
        if isinstance(output, CallDelta):
            self.called.set()
        elif isinstance(output, StageError) or (isinstance(output, TextDelta) and output.finish is not None):
            self.ended.set()

    @property
    def calls(self) -> list[CallDelta]:
        """All pieces of calls."""
        return [output for output in self.outputs if isinstance(output, CallDelta)]

    @property
    def arguments(self) -> str:
        """JSON of the call's arguments, where there is one call; as much as has come."""
        return "".join(delta.arguments for delta in self.calls)

    @property
    def text(self) -> str:
        """The words."""
        return "".join(output.text for output in self.outputs if isinstance(output, TextDelta))

    @property
    def error(self) -> StageError | None:
        """Why it failed; None: it did not."""
        return next((output for output in self.outputs if isinstance(output, StageError)), None)
