"""The stage graph: a pack's nodes and edges, checked when it is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from duplex.payloads import (
    Audio,
    Clause,
    LatentChunk,
    Latents,
    Picture,
    Prompt,
    Reading,
    TextDelta,
    TickInput,
    TickOutput,
    Transcript,
    TurnEnd,
    Utterance,
    VoiceProbability,
    VoiceWindow,
)
from duplex.stages.contract import ModelPack, PackError, Role, Stage

_TYPES: dict[Role, tuple[type, tuple[type, ...]]] = {
    Role.VAD: (VoiceWindow, (VoiceProbability,)),
    Role.END_OF_TURN: (Utterance, (TurnEnd,)),
    Role.TRANSCRIBE: (Utterance, (Transcript,)),
    Role.THINK: (Prompt, (TextDelta,)),
    Role.TALK: (Clause, (Latents, Audio)),
    Role.VOCODE: (LatentChunk, (Audio,)),
    Role.TICK: (TickInput, (TickOutput,)),
    Role.READ: (Picture, (Reading,)),
}
"""What each role takes, and what it may give."""
_JOINTS: frozenset[tuple[type, type]] = frozenset(
    {(Transcript, Prompt), (Reading, Prompt), (TextDelta, Clause), (Latents, LatentChunk)}
)
"""Edges on which the session core turns one payload into the next (conversation, clauses, chunks)."""
_NEEDED: dict[bool, frozenset[Role]] = {
    False: frozenset({Role.VAD, Role.TRANSCRIBE, Role.THINK, Role.TALK}),
    True: frozenset({Role.VAD, Role.TICK}),
}
"""Roles without which a pack cannot serve, by whether it is in tick mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageGraph:
    """A checked pack."""

    pack: ModelPack
    nodes: dict[Role, Stage]

    def has(self, role: Role) -> bool:
        """Return whether the pack has a node of this role."""
        return role in self.nodes


def build_graph(pack: ModelPack) -> StageGraph:
    """Check a pack and return its graph.

    Raises:
        PackError: two nodes of one role, a type that does not fit its role or its edge, or a role is missing.
    """
    nodes: dict[Role, Stage] = {}
    for stage in pack.stages:
        spec = stage.spec
        if spec.role in nodes:
            raise PackError(f"pack {pack.name}: two stages of role {spec.role}")
        takes, gives = _TYPES[spec.role]
        if spec.takes is not takes or spec.gives not in gives:
            raise PackError(f"pack {pack.name}: stage {spec.name} does not fit role {spec.role}")
        nodes[spec.role] = stage
    missing = _NEEDED[pack.tick_ms is not None] - nodes.keys()
    if missing:
        raise PackError(f"pack {pack.name}: no stage of role {', '.join(sorted(missing))}")
    for upstream, downstream in pack.edges:
        if upstream not in nodes or downstream not in nodes:
            raise PackError(f"pack {pack.name}: edge {upstream} → {downstream} names a stage that it does not have")
        given, taken = nodes[upstream].spec.gives, nodes[downstream].spec.takes
        if given is not taken and (given, taken) not in _JOINTS:
            raise PackError(f"pack {pack.name}: {upstream} gives {given.__name__}, {downstream} takes {taken.__name__}")
    talk = nodes.get(Role.TALK)
    if talk is not None and talk.spec.gives is Latents and (Role.TALK, Role.VOCODE) not in pack.edges:
        raise PackError(f"pack {pack.name}: latents of {talk.spec.name} lead nowhere")
    return StageGraph(pack=pack, nodes=nodes)
