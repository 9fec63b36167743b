"""What travels between stages: typed payloads, each addressed to a session, a lane's epoch and a reply.

A stage refuses what is not addressed to it or is of another schema version; nothing older than its lane's epoch passes an
edge (DESIGN.md §1, invariants 1 and 10). Audio arrays are numpy, mono; they are never changed after they are handed on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NewType

import numpy as np
from numpy.typing import NDArray

from duplex.units import MonoNs, Samples, Span, convert

SCHEMA_VERSION = 1
Int16Array = NDArray[np.int16]
Float32Array = NDArray[np.float32]
JobId = NewType("JobId", int)
ImageFormat = Literal["png", "jpeg", "webp"]

CONVERSATION_LANE = 0
"""The output lane of the conversation; an out-of-band reply has one of its own (1, 2, …)."""
INPUT_LANE = -1
"""Work on the user's audio; it is never cut, but taken back job by job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Whose work it is, and when it is stale."""

    session: str
    lane: int
    epoch: int
    """The lane's epoch when the work was made; once the lane's is greater, the work is dropped on sight."""
    reply: str | None = None
    """Reply id; None for work on the input."""
    tenant: str = "default"
    """Whose share of the stages it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """When a piece of work is due, in terms of its listener; see `duplex.pacing.urgency`."""

    since: MonoNs
    """When the wait began (for first audio: the end of the user's turn)."""
    dry_at: MonoNs | None = None
    """When the listener runs dry if nothing more is produced, counting what waits downstream; None: no audio yet."""
    hold_until: MonoNs | None = None
    """Not worth doing before: the lead is at its target until then."""
    blocked: bool = False
    """No credit: the later stages hold as much as they may; a new pace tells when that changes."""
    newest_starts: MonoNs | None = None
    """When the newest chunk begins to play, as one infers it from when chunks were made (not from the playback front)."""
    speculative: bool = False
    """May be thrown away: served after everything else."""
    unpaced: bool = False
    """Nobody listens to it (text alone): served behind all that is paced by a listener."""
    idle_only: bool = False
    """For idle time alone: refused by a stage that has anything else to do, and aborted in an engine when that comes."""


class Role(StrEnum):
    """What a node does for the session core; a pack has at most one node of each role."""

    VAD = "vad"
    END_OF_TURN = "end_of_turn"
    TRANSCRIBE = "transcribe"
    THINK = "think"
    TALK = "talk"
    VOCODE = "vocode"
    TICK = "tick"
    READ = "read"
    """Reads the text in the camera's newest picture, or in one of an item, for the thinker; a pack may be without it."""


# Payloads. ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceWindow:
    """512 samples of input at 16 kHz, in order and without gaps; VAD → `VoiceProbability`."""

    span: Span
    pcm: Int16Array


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceProbability:
    span: Span
    probability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """The open or finished turn's audio at 16 kHz; end of turn → `TurnEnd`, transcription → `Transcript`."""

    span: Span
    pcm: Int16Array


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnd:
    """Probability in 0..1 that the speaker has finished."""

    span: Span
    probability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    span: Span
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedImage:
    """An image as a client sent it. Its head was looked at, and nothing else."""

    format: ImageFormat
    width: int
    """Pixels, as its head says."""
    height: int
    size_bytes: int
    data: Any = field(repr=False)
    """The bytes: for a decoder (`duplex.media.images`) and nobody else; a recording has their hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A sampled camera frame, or an image of an item; reader → `Reading`."""

    rgb: Any = None
    """A frame: numpy array of shape (height, width, 3), uint8; never changed."""
    image: EncodedImage | None = None
    """An image, in place of a frame; `duplex.media.images.pixels_of` gives the pixels of either."""
    at: MonoNs
    """When the frame's last packet came in, or the image's turn to be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What is legible in a picture."""

    at: MonoNs
    """The picture's."""
    lines: tuple[str, ...]
    """As they stand, from above; none: nothing is legible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that the client offers."""

    name: str
    description: str
    parameters: str
    """JSON Schema of its arguments, an object, as JSON text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolset:
    """What functions a reply may call, and whether it has to."""

    tools: tuple[Tool, ...] = ()
    choice: Literal["auto", "none", "required", "named"] = "auto"
    """Has no effect without tools."""
    named: str | None = None
    """The one that has to be called, where the choice is `named`."""
    parallel: bool = True
    """A reply may call more than one."""

    @property
    def callable(self) -> tuple[Tool, ...]:
        """Return those that the choice leaves."""
        if self.choice == "none":
            return ()
        return tuple(tool for tool in self.tools if self.choice != "named" or tool.name == self.named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A function call that the conversation holds, complete."""

    id: str
    name: str
    arguments: str
    """JSON text of an object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    role: str
    """system, user, assistant, or tool."""
    text: str
    """Of a tool: what the call gave."""
    calls: tuple[Call, ...] = ()
    """Of the assistant, behind its text; each is followed by a tool's message."""
    call_id: str | None = None
    """Of a tool: the call that it answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The whole conversation as heard; thinker → a stream of `TextDelta`."""

    messages: tuple[Message, ...]
    reply_so_far: str = ""
    """Text of this very reply that was generated before a pause; generation goes on behind it."""
    tokens_max: int | None = None
    sees: bool = True
    """The camera's newest frame may be added; False: it is made from what its client says, and nothing else."""
    frames: tuple[Any, ...] = ()
    """Newest camera frames as numpy RGB arrays of shape (height, width, 3), uint8."""
    prefill: bool = False
    """Only to be read: a prompt that begins as this one does is soon to come, and the user's last message may go on. The
    answer is one `TextDelta` without text. Only for a thinker that prefills (`NodeSpec.prefills`)."""
    toolset: Toolset = Toolset()
    """Only for a thinker that calls functions (`NodeSpec.calls`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    text: str
    tokens: int
    """Tokens generated for this delta."""
    finish: str | None = None
    """None while more follows; `stop` or `length` on the last delta."""
    prompt_tokens: int | None = None
    """On one delta: tokens of the prompt, where the engine tells them."""
    cached_tokens: int = 0
    """Of those, what it had read before."""


@dataclass(frozen=True, slots=True)
class Alive:
    """An engine is at work on a job that has no new output yet: it reads a long prompt, or a model reasons in silence.

    Goes no further than the stage's runner, which would take the silence for a hung engine.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDelta:
    """A piece of a function call, before the last `TextDelta` of its reply."""

    index: int
    """Which of the reply's calls, from 0, in the order in which they begin."""
    name: str
    """The function's; the same in each piece of a call."""
    arguments: str
    """The next characters of the JSON text."""
    tokens: int
    last: bool = False
    """The call is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """A piece of a reply's text that is spoken as one; talker → `Latents` (or `Audio` from an unsplit voice)."""

    index: int
    text: str
    """As it stands in the transcript, with its white space; the talker makes it speakable itself."""
    voice: str
    speed: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WordMark:
    """One word's end, on both scales."""

    text_end: int
    """Characters of the clause's text up to the word's end."""
    end: int
    """Codec frames (in `Latents`) or samples at the audio's rate (in `Audio`) from the clause's start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latents:
    """A clause as codec frames, before the vocoder."""

    clause: int
    frames: int
    hop: int
    """Audio samples per frame, at `rate`."""
    rate: int
    words: tuple[WordMark, ...]
    """Ends in frames from this piece's start, in characters from the clause's."""
    data: Any
    """The vocoder's own business; never looked into elsewhere."""
    last: bool = True
    """The clause's frames end here; a talker that streams gives a clause in pieces, each with its own frames and words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentChunk:
    """Frames `first <= f < last` of a clause; vocoder → `Audio` of exactly (last − first) × hop samples."""

    latents: Latents
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Audio:
    """Speech of one clause or part of it."""

    clause: int
    pcm: Int16Array
    rate: int
    last: bool
    """The clause ends here."""
    words: tuple[WordMark, ...] = ()
    """Given by an unsplit voice only; a vocoder's words came with the `Latents`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TickInput:
    """One tick of input audio (80, 160 or 1000 ms at 16 kHz) for a model in lock-step; → `TickOutput`."""

    span: Span
    pcm: Int16Array


@dataclass(frozen=True, slots=True, kw_only=True)
class TickOutput:
    span: Span
    speak: bool
    """Whether the model speaks in this tick; a run of such ticks is one reply."""
    pcm: Int16Array | None
    rate: int
    text: str = ""


Payload = (
    VoiceWindow | VoiceProbability | Utterance | TurnEnd | Transcript | Picture | Reading | Prompt | Alive | TextDelta | CallDelta
    | Clause | Latents | LatentChunk | Audio | TickInput | TickOutput
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StageError:
    """A stage could not do a job; the reply it belonged to fails with this reason."""

    reason: str
    kind: str = "failed"
    """failed, timeout, refused (queue full), invalid (what the client sent is broken), unavailable, memory (the stage ran out of it, and is replaced), preempted
    (speculative work made room for other work), or busy (work for idle time, and there was none)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A payload on its way to one stage."""

    id: JobId
    stage: Role
    address: Address
    payload: Payload
    pace: Pace
    schema: int = field(default=SCHEMA_VERSION)


def media_of(payload: Payload) -> Samples:
    """Return the media a payload holds while it waits in a queue, as a length at 48 kHz (0 where it holds none)."""
    match payload:
        case VoiceWindow(span=span) | Utterance(span=span) | TickInput(span=span):
            return Samples(len(span))
        case LatentChunk(latents=latents, first=first, last=last):
            return Samples(convert((last - first) * latents.hop, latents.rate, 48_000))
        case _:
            return Samples(0)
