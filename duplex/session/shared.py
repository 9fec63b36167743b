"""What the parts of one session's core have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from duplex.config import Settings
from duplex.payloads import INPUT_LANE, Address, JobId, Pace, Role
from duplex.session.config import SessionConfig
from duplex.session.conversation import Conversation
from duplex.session.effects import Outbox, SubmitUtterance
from duplex.session.lane import Lane
from duplex.session.traits import Traits
from duplex.units import MonoNs, Samples, Span, ns_from_samples


@dataclass(slots=True, kw_only=True)
class Shared:
    """Made by the core, which alone replaces `config`; each part changes the rest by its own methods only."""

    session: str
    """Its id."""
    config: SessionConfig
    """The client's choices, as they are at this moment."""
    settings: Settings
    """The server's bounds."""
    traits: Traits
    """Of the pack and the transport."""
    lane: Lane
    conversation: Conversation
    outbox: Outbox
    new_id: Callable[[str], str]
    """Gives a fresh id for a prefix (`item`, `resp`)."""

    def submit_input(
        self, role: Role, span: Span, speech_end: Samples, now: MonoNs, idle_only: bool = False
    ) -> JobId:  # fmt: skip
        """Have a stage look at a span of the user's audio, in which speech ended at `speech_end`; return the job."""
        job = self.outbox.next_job()
        since = MonoNs(now - ns_from_samples(Samples(span.end - speech_end)))
        address = Address(session=self.session, lane=INPUT_LANE, epoch=0, tenant=self.traits.tenant)
        pace = Pace(since=since, speculative=idle_only, idle_only=idle_only)
        self.outbox.add(SubmitUtterance(id=job, role=role, address=address, span=span, pace=pace))
        return job
