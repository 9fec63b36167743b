"""What the sessions of a process share, and what a core has to know of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from duplex.actor.watch import MakeCore, Watch
from duplex.config import Settings
from duplex.media.contract import Transport
from duplex.media.processing import Make
from duplex.protocol import ComeBack, TransportName, WireProfile
from duplex.session.core import SessionCore
from duplex.session.traits import Traits
from duplex.stages.contract import Role
from duplex.stages.executor import Executor
from duplex.stages.run import StageRunners


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorContext:
    """What the sessions of a process share."""

    settings: Settings
    profile: WireProfile
    runners: StageRunners
    executor: Executor
    observe: Callable[[str, float, dict[str, str]], None]
    close: Callable[[Transport, str], None]
    """Closes a transport in the background."""
    tick_ms: int | None = None
    watch: Watch | None = None
    make_core: MakeCore = SessionCore
    """Makes a session's core; a recorder makes one that is under record."""
    offer: Callable[[str], str | None] = lambda session_id: None
    """Makes the next token that resumes a session; None: no session can be resumed."""
    come_back: Callable[[str, ComeBack], None] = lambda session_id, asked: None
    """Takes a client's wish to go on with another session, or with this one, on the connection that this one has."""
    processing: Make | None = None
    """Makes the module that cancels echo and noise; None: audio is taken as it comes."""

    def traits(self, transport: TransportName, tenant: str) -> Traits:
        """Return what a session's core has to know of the pack, of its transport and of whose it is."""
        graph, nodes = self.runners.graph, self.runners.graph.nodes
        think = nodes[Role.THINK].spec if Role.THINK in nodes else None
        confirm = self.settings.barge_in.confirm
        words_tell = confirm == "semantic" or (confirm == "auto" and graph.pack.hears_short_words)
        return Traits(
            transport=transport,
            semantic=Role.END_OF_TURN in nodes,
            pausable=think is not None and think.pausable,
            transcribes=Role.TRANSCRIBE in nodes,
            tick_mode=self.tick_ms is not None,
            words_tell=Role.TRANSCRIBE in nodes and words_tell,
            hears_language=graph.pack.hears_language,
            reads=Role.READ in nodes,
            bounded=self.runners.policy.bounded,
            tenant=tenant,
            speculates=graph.pack.speculates,
            context=None if think is None else think.context,
            prefills=think is not None and think.prefills,
            speaking_rate_wpm=graph.pack.speaking_rate_wpm,
        )
