"""The pack's own options: `[model.options]` of the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from duplex.stages.contract import PackError

SYSTEM_PROMPT = (
    "You are a helpful voice assistant. Answer in one short sentence. "
    "You cannot see; you only read text from the camera."
)
"""Said to the model when the session gives no instructions of its own."""


ThinkerName = Literal["smollm2-135m", "qwen2.5-coder-1.5b"]
VoiceName = Literal["joe", "kokoro"]
WhisperName = Literal["tiny.en", "base"]


class LocalOptions(BaseModel):
    """Settings of the pack `local`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    thinker: ThinkerName = "smollm2-135m"
    """`qwen2.5-coder-1.5b` holds a conversation, at four to five times the time and memory; extra `qwen`."""
    voice: VoiceName = "joe"
    """`kokoro` sounds better and cannot stream inside a clause; extra `kokoro`, and `kokoro_style`."""
    kokoro_style: Path | None = None
    """File of the style that Kokoro speaks in, from the npm package kokoro-js 1.2.1: `voices/af_heart.bin`."""
    whisper: WhisperName = "tiny.en"
    """`base` hears better, at three times the time; extra `whisper-base`."""
    sessions: int = Field(4, ge=1, le=32)
    """Conversations whose prefix stays in the thinker's cache; more sessions are not admitted. Unset, of these only one for each of the machine's
    threads until the stages have been measured: two talkers on two cores are what kept the SLO (docs/performance.md)."""
    thinker_threads: int = Field(1, ge=1, le=64)
    """Threads of one decoding step. More than one is slower as soon as anything else runs."""
    prompt_threads: int = Field(2, ge=1, le=64)
    """Threads that read a prompt, which happens as a turn begins, when the other stages rest: two save 60 ms there. A
    smaller budget of threads lowers the default."""
    whisper_threads: int = Field(1, ge=1, le=64)
    onnx_threads: int = Field(1, ge=1, le=64)
    """Threads of one step of end of turn, talker and vocoder; voice activity always has one."""
    context_tokens: int = Field(2048, ge=512, le=8192)
    """Tokens of instructions, conversation and reply together; more is refused."""
    history_tokens: int = Field(768, ge=64, le=8192)
    """Tokens of conversation the thinker is given (estimated, three bytes each); past it the oldest turns are left out. Reading one costs 7 ms when it
    is not in the cache, so a long memory means a long wait after every cut of it."""
    prefill_tokens: int = Field(48, ge=8, le=2048)
    """Tokens of a prompt that are read ahead in one step, which nothing can stop: others' words come later by that."""
    prompt_step_tokens: int = Field(128, ge=32, le=2048)
    """The same for the prompt of a reply. Smaller steps let others' words through sooner, and take longer in all: 64 by 4 %, 32 by 17 %."""
    reply_tokens_max: int = Field(120, ge=8, le=1024)
    """Longest reply, when the session does not say."""
    tools: bool = True
    """Sessions can offer functions. Deciding on them takes a context of its own in the engine; off saves its memory (50 MB)."""
    tool_tokens_max: int = Field(256, ge=16, le=1024)
    """Longest arguments of a call."""
    reader: bool = True
    """Read text held before the camera and in images of items; its models are loaded with the first. See docs/models.md."""
    reader_edge_px_max: int = Field(640, ge=160, le=4096)
    """A frame is scaled to this longer edge before it is read: cost grows with the area, small letters get lost."""
    reader_image_edge_px_max: int = Field(1280, ge=160, le=4096)
    """The same for an image of an item, such as a photographed page or a screen: nobody waits in silence for it."""
    temperature: float = Field(0.0, ge=0.0, le=2.0)
    """0 takes the most probable token: the best choice for a model this small."""
    system_prompt: str = Field(SYSTEM_PROMPT, max_length=4000)
    noise_scale: float = Field(0.667, ge=0.0, le=1.0)
    """How much the voice's timbre varies."""
    noise_scale_duration: float = Field(0.8, ge=0.0, le=1.0)
    """How much the voice's rhythm varies."""
    cache_dir: Path | None = None
    """Where the split voice is kept; unset takes `duplex` in the user's cache folder."""


def parse(options: dict[str, Any], threads: int, where: str = "model.options") -> LocalOptions:
    """Check options against the schema and the thread budget.

    Args:
        where: what the options are called in the configuration.

    Raises:
        PackError: an option is unknown, out of range, or asks for more threads than there are.
    """
    try:
        parsed = LocalOptions(**({"prompt_threads": min(2, threads)} | options))
    except ValidationError as error:
        lines = [f"{where}.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise PackError("bad options of the model pack local\n  " + "\n  ".join(lines)) from error
    for name in ("thinker_threads", "prompt_threads", "whisper_threads", "onnx_threads"):
        if getattr(parsed, name) > threads:
            raise PackError(f"{where}.{name}: {getattr(parsed, name)} is more than the budget of {threads} threads")
    return parsed
