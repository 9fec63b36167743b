"""Profiles: what a model's stages cost, and on what. A TOML file each under `loadgen/profiles/`; every figure has its source.

    seconds of one step = (base + per_job × jobs + per_unit × largest job + per_job_unit × all jobs) / 1000

A unit is a second of audio (transcribe), a token that has to be read (think, prefill) or a codec frame (talk, vocode).
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

PROFILES = Path(__file__).parent.parent / "profiles"


class ProfileError(ValueError):
    """A profile cannot be read; the message names the key and the reason."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Cost(_Section):
    """Milliseconds of one step."""

    base: float = Field(0, ge=0)
    per_job: float = Field(0, ge=0)
    per_unit: float = Field(0, ge=0)
    per_job_unit: float = Field(0, ge=0)
    cores: float = Field(1, gt=0)
    """That a step keeps busy, where its device is shared; elsewhere it takes one place."""
    held_up: float = Field(1, ge=1)
    """How much slower still it is while a shared device has not all that it wants: threads that wait for each other."""

    def seconds(self, units: Sequence[float]) -> float:
        """Return the time of a step over jobs of so many units each."""
        if not units:
            return 0.0
        total = self.base + self.per_job * len(units) + self.per_unit * max(units) + self.per_job_unit * sum(units)
        return total / 1000


class Stage(_Section):
    """A batch stage."""

    device: str
    cost: Cost
    batch_max: int = Field(16, ge=1)


class Thinker(_Section):
    """An engine that decodes all its running replies in one step, and reads prompts in steps of their own."""

    device: str
    decode: Cost
    """One token of every running reply; units are not used."""
    prefill: Cost
    """Reading prompts; a unit is a token that is not in the cache."""
    read_context_us: float = Field(0, ge=0)
    """Microseconds that reading takes more for each pair of a token that is read and one of the context before it."""
    step_context_us: float = Field(0, ge=0)
    """Microseconds that a decoding step takes more for each token of its replies' contexts."""
    slots: int = Field(ge=1)
    """Replies that generate at once."""
    read_batch: int = Field(8, ge=1)
    """Prompts that are read in one step."""
    pausable: bool = True
    tokens_per_word: float = Field(1.3, gt=0)
    turn_tokens: int = Field(20, ge=0)
    """Tokens that a turn adds besides its words (template)."""
    audio_tokens_per_s: float = Field(0, ge=0)
    """Tokens of the user's speech; 0 where the thinker gets text."""
    instructions_tokens: int = Field(100, ge=0)
    kv_tokens: int = Field(0, ge=0)
    """Tokens of context that fit into the device's memory; 0: enough for all."""
    kv_load_ms_per_token: float = Field(0, ge=0)
    """Bringing offloaded context back."""


class Talker(_Section):
    """`engine`: streams codec frames, one of every running clause a step. `batch`: whole clauses."""

    device: str
    kind: Literal["engine", "batch"]
    cost: Cost
    """engine: one step (units are not used). batch: units are codec frames."""
    first: Cost = Cost()
    """engine: a clause's step before its first frame."""
    slots: int = Field(16, ge=1)
    read_batch: int = Field(8, ge=1)
    """engine: replies whose first frames are prepared in one step."""
    pieces: tuple[Annotated[int, Field(ge=1)], ...] = Field((1,), min_length=1)
    """engine: frames of a reply's first pieces, one after the other; the last number holds for all that follow."""


class Voice(_Section):
    """How text becomes time."""

    words_per_minute: float = Field(170, gt=0)
    frame_ms: float = Field(80, ge=1)
    clause_words: int = Field(8, ge=1)
    """Words between two places where a speaker would pause."""
    lead_in_ms: tuple[Annotated[float, Field(ge=0, le=1000)], ...] = ()
    """Silence with which an answer begins, before its first audible sample: one of these is drawn for each; none given: 0."""


class Hearing(_Section):
    """What the models of the ear make of the user's speech."""

    tail_ms: tuple[Annotated[float, Field(ge=-1000, le=1000)], ...] = ()
    """From the end of a turn's energy to where the VAD sees it: one of these is drawn for each turn; none given: 0."""
    unsure: tuple[Annotated[float, Field(ge=0, le=1)], ...] = ()
    """Share of finished turns of which the end-of-turn model is still unsure when it is asked first, again, and so on."""
    hasty: float = Field(0, ge=0, le=1)
    """Share of pauses inside a turn that it takes for the end."""


class Profile(_Section):
    """A model on a machine."""

    name: str
    source: str
    """Where the figures come from, in one or two sentences; printed with every result."""
    devices: dict[str, Annotated[float, Field(ge=1)]]
    """Steps that each can compute at once; of a shared one: its cores, by what they get done when all are busy."""
    shared: tuple[str, ...] = ()
    """Devices on which nothing waits for its turn, but all that computes shares the cores: processors."""
    vad_ms: float = Field(ge=0)
    """From a window's last sample at the server until its verdict."""
    sessions_max: int = Field(ge=1)
    end_of_turn: Stage
    transcribe: Stage
    think: Thinker
    talk: Talker
    vocode: Stage
    voice: Voice = Voice()
    hearing: Hearing = Hearing()

    def frames(self, words: int) -> int:
        """Return the codec frames of so many words."""
        return max(1, round(words * 60_000 / self.voice.words_per_minute / self.voice.frame_ms))

    def words_s(self, words: int) -> float:
        """Return how long so many words sound."""
        return self.frames(words) * self.voice.frame_ms / 1000


def load(name: str) -> Profile:
    """Read a profile by name (of those that come with the project) or by path.

    Raises:
        ProfileError: it is not there, or a value is wrong.
    """
    path = Path(name) if name.endswith(".toml") else PROFILES / f"{name}.toml"
    try:
        value = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        known = ", ".join(sorted(p.stem for p in PROFILES.glob("*.toml")))
        raise ProfileError(f"profile {name}: {error} (there are: {known})") from error
    try:
        profile = Profile.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        raise ProfileError(f"{path.name}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    for part, device in _devices(profile).items():
        if device not in profile.devices:
            raise ProfileError(f"{path.name}: {part}.device: {device!r} is not among the devices")
    if unknown := sorted(set(profile.shared) - set(profile.devices)):
        raise ProfileError(f"{path.name}: shared: {unknown[0]!r} is not among the devices")
    return profile


def _devices(profile: Profile) -> dict[str, str]:
    parts = ("end_of_turn", "transcribe", "think", "talk", "vocode")
    return {part: getattr(profile, part).device for part in parts}
