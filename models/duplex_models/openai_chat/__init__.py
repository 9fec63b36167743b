"""Model pack `openai_chat`: the thinker is any server that streams OpenAI chat completions; `local` hears and speaks.

    silero → smart-turn ┐
             whisper ───┴→ the server's model → Piper talker → Piper vocoder

What leaves this machine: the conversation as text, and nothing of the audio or the camera.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from duplex.stages.contract import ModelPack, Role
from duplex_models import local
from duplex_models.openai_chat.options import OpenAiChatOptions, parse
from duplex_models.openai_chat.think import RemoteThink

NOTICE = "The answers come from the model {model} of another server; it is sent the conversation as text. English only."


def create(options: dict[str, Any], threads: int) -> ModelPack:
    """Make the pack; nothing is loaded or asked until its stages are.

    Args:
        options: see `OpenAiChatOptions`.
        threads: the machine's budget, ≥ 1, for the stages of `local`.
    Raises:
        PackError: an option is missing, unknown or out of range, or the key cannot be read.
    """
    parsed = parse(options)
    ours = local.parse(parsed.local, threads, where="model.options.local")
    speech = local.speaking(ours)
    return ModelPack(
        name="openai_chat",
        stages=(*local.hearing(ours), RemoteThink(parsed), *speech.stages),
        edges=((Role.TRANSCRIBE, Role.THINK), (Role.THINK, Role.TALK), *speech.edges),
        makers={**local.hearing_makers(ours), Role.THINK: partial(RemoteThink, parsed), **speech.makers},
        voices=speech.voices,
        sessions_max=parsed.sessions or ours.sessions,
        speaking_rate_wpm=170,
        hears_short_words=True,
        hears_language="en",
        notice=NOTICE.format(model=parsed.model),
    )


__all__ = ["OpenAiChatOptions", "create"]
