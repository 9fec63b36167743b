"""Model pack `sim`: a deterministic test double. It is no model, and says so wherever it is shown.

Its replies are scripted text, spoken as one tone per reply (so that stale audio shows in a spectrum); its costs are settings.
Speech start and stop come from silero on real media; `vad = "level"` is for simulated time, where there is no real voice.
It has a turn form and an 80 ms tick form.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from duplex.stages.contract import ModelPack, PackError, Role, Stage
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

NOTICE = "This is `sim`, a test double: its answers are scripted and its voice is a tone. It is not a model."


class SimOptions(BaseModel):
    """Options of the pack, under `[model] options`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    form: Literal["turn", "tick"] = "turn"
    vad: Literal["silero", "level"] = "silero"
    script: tuple[str, ...] = ("This is a scripted answer of the test double, and it goes on for a little while.",)
    """What it says, one after the other, over again."""
    transcripts: tuple[str, ...] = ()
    """What it claims to have heard; empty: the length of what it heard."""
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
    vad: Stage
    if options.vad == "level":
        vad = LevelVad()
    else:
        from duplex_models.local.vad import Vad  # noqa: PLC0415 (its weights are needed on real media only)

        vad = Vad()
    if options.form == "tick":
        return ModelPack(
            name="sim", stages=(vad, SimTick(options.tick_words, options.word_ms)), edges=(), tick_ms=80, sessions_max=200,
            test_double=True, notice=NOTICE,
        )  # fmt: skip
    stages: tuple[Stage, ...] = (
        vad,
        SimEndOfTurn(options.end_probability, options.end_of_turn_s, sleeps),
        SimTranscribe(options.transcripts, options.partials, options.transcribe_s, sleeps),
        SimThink(
            options.script,
            options.first_token_s,
            options.token_s,
            options.pausable,
            options.parallel,
            after,
            options.history_tokens,
        ),
        SimTalk(options.word_ms, options.talk_s, sleeps),
        SimVocode(options.vocode_s, sleeps),
    )
    edges: tuple[tuple[Role, Role], ...] = (
        (Role.TRANSCRIBE, Role.THINK), (Role.THINK, Role.TALK), (Role.TALK, Role.VOCODE)
    )  # fmt: skip
    if options.reads:
        stages += (SimRead(options.reads, options.read_s, sleeps),)
        edges += ((Role.READ, Role.THINK),)
    return ModelPack(name="sim", stages=stages, edges=edges, sessions_max=200, test_double=True, notice=NOTICE)
