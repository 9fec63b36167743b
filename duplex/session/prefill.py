"""Reading ahead: while the user speaks, the thinker reads what its next prompt will begin with.

    voice     ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▁▁▁▁▁▁▁▁
    read      │conversation  │+ words  │what is left: the reply's own prompt
              └at its onset  └of each partial transcript

Nothing is said or kept of it: a word that turns out to be another one is read again with the rest. It is work for idle time
(`Pace.idle_only`), so it keeps nobody waiting; there is one piece of it at a time, and none behind another.
"""

from __future__ import annotations

from typing import Literal

from duplex.payloads import Address, Job, JobId, Message, Pace, Payload, Prompt, Role, StageError, Toolset
from duplex.session.effects import Drop, Outbox, Submit
from duplex.units import MonoNs

_NO_TOOLS = Toolset()
Outcome = Literal["read", "dropped", "busy", "preempted", "failed"]
"""Read; taken back, because the reply began or the turn was given up; the thinker had other work; other work came; it failed."""


class Prefill:
    """What one session has read ahead.

    Args:
        outbox: takes the effects.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._job: JobId | None = None
        self._reading: tuple[Message, ...] = ()
        self._read: tuple[Message, ...] = ()

    def read(
        self, messages: tuple[Message, ...], address: Address, now: MonoNs, toolset: Toolset = _NO_TOOLS
    ) -> None:  # fmt: skip
        """Have a prompt read, unless it was, or one is being read: the next one brings all that is new.

        Args:
            messages: the conversation as heard; words of the user that stand last may go on.
            address: the conversation's lane, of no reply.
            toolset: of the reply to come.
        """
        if self._job is not None or not messages or messages == self._read:
            return
        job = self._job = self._outbox.next_job()
        self._reading = messages
        prompt = Prompt(messages=messages, prefill=True, toolset=toolset)
        pace = Pace(since=now, speculative=True, idle_only=True)
        self._outbox.add(Submit(job=Job(id=job, stage=Role.THINK, address=address, payload=prompt, pace=pace)))

    def take(self, job: JobId, payload: Payload | StageError) -> bool:
        """Take an output; return False if the job is not its own."""
        if job != self._job:
            return False
        if not isinstance(payload, StageError):
            self._read = self._reading
            self._ended("read")
        elif payload.kind == "busy":
            self._ended("busy")
        else:
            self._ended("preempted" if payload.kind == "preempted" else "failed")
        return True

    def drop(self) -> None:
        """What is being read is not wanted any more: the reply itself reads the rest."""
        self._read = ()
        if self._job is not None:
            self._outbox.add(Drop(role=Role.THINK, job=self._job))
            self._ended("dropped")

    def _ended(self, outcome: Outcome) -> None:
        self._job = None
        self._outbox.observe("duplex_prefill_total", 1, outcome=outcome)
