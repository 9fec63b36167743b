"""What comes in, and how it is understood: media, turns, interruptions, echo, camera."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from duplex.config.section import Db, Ms, Probability, Section


class MediaSettings(Section):
    """The audio path and the video sampler."""

    jitter_ms_min: Ms = 20
    """Shallowest target depth of the receive jitter buffer."""
    jitter_ms_max: Ms = 400
    """Deepest: past it the oldest audio is dropped."""
    late_ms: Ms = 120
    """Audio that has not come is waited for at least this long before its time is filled, while nothing behind it says
    that it is lost. Speech that is late then reaches the ear whole; a model in lock-step waits with it."""
    conceal_ms_max: Ms = 100
    """Missing audio is concealed for this long, then declared silent."""
    opus_bitrate: int = Field(32_000, ge=6_000, le=256_000)
    """Bits per second of sent Opus."""
    opus_complexity: int = Field(5, ge=0, le=10)
    """Effort of the Opus encoder."""
    fec_loss_on: float = Field(0.01, ge=0, le=1)
    """Reported loss above which the encoder switches from CELT to SILK with in-band FEC."""
    tick_phases: int = Field(5, ge=1, le=20)
    """The 20 ms tick serves sessions in this many groups, evenly spread."""
    late_drop_ms: Ms = 60
    """A ticker this late drops the missed time instead of sending a burst."""
    video_fps_max: float = Field(2.0, gt=0, le=30)
    """Frames per second that are decoded and kept; the rest are dropped undecoded where possible."""
    video_edge_px_max: int = Field(1280, ge=64, le=4096)
    """A sampled frame is scaled so that its longer edge is at most this."""
    video_lag_ms: Ms = 200
    """The video watermark trails the audio watermark by at most this, so a stalled camera blocks nobody."""
    processing: Literal["off", "apm"] = "off"
    """`apm`: sessions may ask for echo cancellation and noise suppression here (`pip install 'duplex[apm]'`). Browsers have their
    own; it costs about a tenth of a millisecond for each 10 ms and direction."""
    rtcp_interval_ms: Ms = 1000
    """Time between our RTCP reports."""


class TurnSettings(Section):
    """When the user has begun and finished speaking. Durations count input media."""

    voice_threshold: Probability = 0.5
    """VAD probability at which a window counts as voice (`threshold` of server_vad overrides it)."""
    release_threshold: Probability = 0.35
    """Probability under which a window counts as silence; between the two the last verdict stands."""
    release_drop_db: float = Field(25.0, ge=0, le=90)
    """A window this much quieter than the voice was of late counts as silence, whatever the VAD says: it sees an end about
    100 ms late. Under noise no window is, and the VAD's word stands. 0: its word always does."""
    onset_ms: Ms = 96
    """Voiced time that makes an onset."""
    pause_ms: Ms = 64
    """Silence after which transcription and the semantic end of turn begin to compute; speech that goes on takes it back."""
    speculate: bool = True
    """Begin the reply as soon as the pause's words are there; it is adopted with the turn, or thrown away unheard."""
    prefill: bool = True
    """While the user speaks the thinker reads the conversation ahead, and the words that are known so far, in its idle time;
    only where it keeps what it has read."""
    partial_every_ms: Ms = 700
    """Voice between two partial transcripts of a turn, for clients that want its words; 0 gives none. They are work for the
    stage's idle time, and are left out where one would take longer than `stages.idle_step_ms_max`."""
    first_look_ms: Ms = 352
    """Silence after which it is decided whether the turn has ended (semantic_vad)."""
    first_look_ms_low: Ms = 800
    """The same for eagerness low, which lets people think inside a sentence."""
    look_every_ms: Ms = 300
    """Silence between further looks while the end of turn is not sure."""
    end_probability: Probability = 0.5
    """Semantic probability above which the turn has ended."""
    hold_ms_low: Ms = 8000
    """Longest silence that an unsure end of turn may hold, eagerness low."""
    hold_ms_medium: Ms = 2000
    """The same, eagerness medium or auto."""
    hold_ms_high: Ms = 1000
    """The same, eagerness high."""
    prefix_padding_ms: Ms = 300
    """Audio before the onset that belongs to the utterance."""
    turn_ms_max: Ms = 30_000
    """A turn of continuous sound is committed at this length, and the client told (`duplex.turn.limited`)."""
    speech_ms_min: Ms = 160
    """Voiced time below which an utterance is discarded as noise."""
    idle_instructions: str = Field(
        "The user has said nothing for a while. Ask in a few words whether they are still there.", min_length=1
    )
    """What the model is told in the user's place when a session's `idle_timeout_ms` is over (server_vad)."""
    input_stall_ms: Ms = 1000
    """Wall time without any media after which an open utterance is closed."""
    input_buffer_ms_max: Ms = 120_000
    """Input audio kept per session; past it the oldest is dropped."""
    commit_ms_min: Ms = 100
    """A manual commit of less audio is an error."""


class BargeInSettings(Section):
    """What the user's voice over a reply does to it."""

    on_onset: Literal["duck", "hold", "none"] = "duck"
    """What an onset does until it is confirmed or taken back; `duplex.on_onset` sets it per session."""
    duck_db: Db = 12.0
    """How much quieter a ducked reply is."""
    confirm: Literal["auto", "duration", "semantic"] = "auto"
    """What confirms an onset. `duration`: voice alone. `semantic`: the reply is withheld after `hold_ms` of voice and cut when
    the words say so, or after `sure_ms`; sessions that leave the reply alone at an onset (`none`, and every WebSocket session)
    are confirmed by duration all the same. `auto`: semantic where the model pack hears short words well."""
    confirm_ms: Ms = 320
    """Voiced time that makes an interruption: it cuts the reply, or (semantic) lets words interrupt that are no command."""
    hold_ms: Ms = 224
    """Semantic: voiced time that withholds the reply until the words are known."""
    sure_ms: Ms = 704
    """Semantic: voiced time that cuts the reply whatever is said: nobody says "okay" for so long."""
    commands: tuple[str, ...] = (
        "actually", "but", "cancel", "cut", "enough", "excuse", "hang", "hello", "hey", "hold", "listen", "no", "nope", "pardon",
        "pause", "please", "quiet", "shush", "silence", "sorry", "stop", "wait", "what", "why", "wrong",
    )  # fmt: skip
    """Semantic: words that interrupt however short they are, in lower case."""
    backchannels: tuple[str, ...] = (
        "ah", "aha", "alright", "cool", "fine", "good", "got", "great", "ha", "hm", "hmm", "huh", "i", "indeed", "it", "mhm", "mm",
        "mmhm", "mmm", "nice", "oh", "ok", "okay", "right", "see", "sure", "true", "uh", "um", "wow", "yeah", "yep", "yes", "yup",
    )  # fmt: skip
    """Semantic: words that do not interrupt, alone or together, in lower case."""
    resolve_ms: Ms = 700
    """An onset not confirmed within this time is taken back (a cough, a backchannel); semantic: the time that words have to
    come, after which the voiced time decides."""
    fade_ms: int = Field(8, ge=5, le=30)
    """Fade-out at a cut."""
    go_on_instructions: str = (
        "That was only a noise, and nobody spoke. Go on from where you were interrupted, in a few words."
    )
    """What the model is told in the user's place when what has cut its reply was a sound without words; empty: it stays silent."""


class EchoSettings(Section):
    """How the reply's own echo in the microphone is told from a voice (WebRTC)."""

    gate: bool = True
    """Take a voice over a reply for none while what was sent explains it. It costs nothing where no echo comes back."""
    delay_ms_max: int = Field(600, ge=100, le=2000)
    """Longest way of an echo: out to the loudspeaker and back from the microphone."""
    tail_ms: Ms = 300
    """An echo is looked for until this long after that way has been gone by the last sound."""
    likeness: float = Field(0.75, gt=0, lt=1)
    """Correlation of what was sent and heard, modulation of bands against each other, from which on an echo's path is learnt."""
    margin_db: Db = 6.0
    """How much louder than the path says an echo may be."""
    unexplained: float = Field(0.35, gt=0, lt=1)
    """Share of a window's energy over that level that makes it a voice."""


class CameraSettings(Section):
    """Text that is held before the camera: read for the turn that is to be answered, and given to the thinker."""

    read: bool = True
    """Whether the camera is read at all, where the model pack can."""
    frame_age_ms_max: Ms = 5000
    """A frame older than this is not shown or read any more, nor is what was read in it: the camera is off, or stands still."""
    wait_ms_max: Ms = 400
    """An answer waits for the reading until this long after it was asked for (in the first pause of speech, beside the
    transcription), and no longer; 0 takes only what has been read by then."""
    text_chars_max: int = Field(400, ge=1, le=10_000)
    """Characters that are given to the thinker of one reading; the rest is cut off."""
