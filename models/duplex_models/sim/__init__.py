"""Model pack `sim`: a deterministic test double. It is no model, and says so wherever it is shown.

Its replies are scripted text, spoken as one tone per reply (so that stale audio shows in a spectrum); its costs are settings.
Speech start and stop come from silero on real media; `vad = "level"` is for simulated time, where there is no real voice.
It has a turn form and an 80 ms tick form.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from duplex.stages.contract import ModelPack, PackError, Role, Stage, StageMaker
from duplex_models.sim.read import SimRead
from duplex_models.sim.stages import (
    After,
    LevelVad,
    SimEndOfTurn,
    SimTalk,
    SimThink,
    SimTranscribe,
    SimVocode,
    loop_after,
)
from duplex_models.sim.tick import SimTick

NOTICE = "This is sim, a test double: its answers are scripted and its voice is a tone. It is not a model."


class SimOptions(BaseModel):
    """Options of the pack, under `[model] options`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    form: Literal["turn", "tick"] = "turn"
    vad: Literal["silero", "level"] = "silero"
    script: tuple[str, ...] = ("This is a scripted answer of the test double, and it goes on for a little while.",)
    """What it says, one after the other, over again."""
    transcripts: tuple[str, ...] = ()
    """What it claims to have heard; empty: the length of what it heard."""
    language: str | None = None
    """The language in which it claims to hear."""
    partials: tuple[str, ...] = ()
    """What it claims to have heard while the user speaks, one after the other, over again; empty: nothing yet."""
    reads: tuple[str, ...] = ()
    """What it claims to read from the camera, one after the other, over again; empty: it has no reader."""
    read_s: float = Field(0.0, ge=0)
    end_probability: float = Field(0.9, ge=0, le=1)
    """Answer of its end-of-turn stage."""
    end_of_turn_s: float = Field(0.0, ge=0)
    transcribe_s: float = Field(0.0, ge=0)
    first_token_s: float = Field(0.0, ge=0)
    token_s: float = Field(0.0, ge=0)
    """Time per word of text."""
    talk_s: float = Field(0.0, ge=0)
    vocode_s: float = Field(0.0, ge=0)
    """Time per chunk."""
    word_ms: int = Field(300, ge=20, le=5000)
    """Length of a spoken word."""
    pausable: bool = True
    history_tokens: int | None = Field(None, ge=64)
    """Tokens of conversation that its thinker says it reads; unset: any length."""
    parallel: int = Field(64, ge=1)
    """Replies thought at once."""
    tick_words: int = Field(6, ge=1)
    """Words of an answer in tick form."""


def create(options: dict[str, object], threads: int) -> ModelPack:
    """Make the pack.

    Raises:
        PackError: an option is wrong.
    """
    try:
        parsed = SimOptions.model_validate(options)
    except ValidationError as error:
        first: Any = error.errors()[0]
        raise PackError(f"model pack sim: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    return make(parsed)


def make(options: SimOptions, after: After = loop_after, sleeps: bool = True) -> ModelPack:
    """Make the pack on a clock of the caller's.

    Args:
        options: its settings.
        after: runs a call after seconds.
        sleeps: batch stages take their cost in wall time; off where the caller's executor adds it.
    """
    if options.form == "tick":
        makers: dict[Role, StageMaker] = {
            Role.VAD: partial(_vad, options.vad), Role.TICK: partial(SimTick, options.tick_words, options.word_ms)
        }  # fmt: skip
        edges: tuple[tuple[Role, Role], ...] = ()
    else:
        makers = _turn_makers(options, after, sleeps)
        edges = ((Role.TRANSCRIBE, Role.THINK), (Role.THINK, Role.TALK), (Role.TALK, Role.VOCODE))
        if options.reads:
            edges += ((Role.READ, Role.THINK),)
    return ModelPack(
        name="sim", stages=tuple(make() for make in makers.values()), edges=edges, makers=makers, sessions_max=200,
        tick_ms=80 if options.form == "tick" else None, hears_language=options.language, test_double=True, notice=NOTICE,
    )  # fmt: skip


def _turn_makers(options: SimOptions, after: After, sleeps: bool) -> dict[Role, StageMaker]:
    makers: dict[Role, StageMaker] = {
        Role.VAD: partial(_vad, options.vad),
        Role.END_OF_TURN: partial(SimEndOfTurn, options.end_probability, options.end_of_turn_s, sleeps),
        Role.TRANSCRIBE: partial(SimTranscribe, options.transcripts, options.partials, options.transcribe_s, sleeps),
        Role.THINK: partial(
            SimThink,
            options.script,
            options.first_token_s,
            options.token_s,
            options.pausable,
            options.parallel,
            after,
            options.history_tokens,
        ),
        Role.TALK: partial(SimTalk, options.word_ms, options.talk_s, sleeps),
        Role.VOCODE: partial(SimVocode, options.vocode_s, sleeps),
    }
    if options.reads:
        makers[Role.READ] = partial(SimRead, options.reads, options.read_s, sleeps)
    return makers


def _vad(kind: Literal["silero", "level"]) -> Stage:
    if kind == "level":
        return LevelVad()
    from duplex_models.local.vad import Vad  # noqa: PLC0415 (its weights are needed on real media only)

    return Vad()
