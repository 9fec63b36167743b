"""Every bound, timeout and threshold of the server: one frozen tree, read once at start.

Order of precedence: command-line flags, then environment (`DUPLEX_SERVER__PORT=8080`), then a TOML file, then the
defaults below. A bad value stops the start with a message that names the key. This module is the documentation of every
setting; `duplex serve --help` and docs/configuration.md point here.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, IPvAnyNetwork, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

Ms = Annotated[int, Field(ge=0, le=3_600_000)]
Db = Annotated[float, Field(ge=0, le=60)]
Probability = Annotated[float, Field(gt=0, lt=1)]
StageRole = Literal["vad", "end_of_turn", "transcribe", "think", "talk", "vocode", "tick", "read"]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ServerSettings(_Section):
    """What listens, and what it refuses."""

    host: str = "127.0.0.1"
    """Address to bind. Off loopback the server is reachable by others: see docs/security.md."""
    port: int = Field(8080, ge=0, le=65535)
    """TCP port of HTTP and WebSocket; 0 takes a free one."""
    sessions_max: int | None = Field(None, ge=1)
    """Live sessions admitted at once, whatever is measured; unset takes what the stages can carry (`[admission]`)."""
    sdp_bytes_max: int = Field(64 * 1024, ge=1024)
    """Largest SDP offer in bytes; a larger one answers 413."""
    candidates_max: int = Field(64, ge=1)
    """Most ICE candidates in an offer; more answer 400."""
    event_bytes_max: int = Field(16 * 1024 * 1024, ge=1024)
    """Largest client event in bytes; a larger one closes the WebSocket with 1009."""
    connect_timeout_s: float = Field(12.0, gt=0, le=60)
    """A peer that has not connected its media within this time is closed."""
    vanish_timeout_s: float = Field(8.0, gt=0, le=60)
    """A peer from which nothing has arrived (ICE consent, RTP, RTCP) for this long is closed."""
    websocket_ping_s: float = Field(10.0, gt=0)
    """Heartbeat of WebSocket sessions; a missing pong within half of it closes."""
    outbox_bytes_max: int = Field(8 * 1024 * 1024, ge=1024)
    """Events waiting for a client that does not read; past it the session is closed with a reason."""
    request_timeout_s: float = Field(10.0, gt=0, le=60)
    """Time in which a request's body has to arrive."""
    head_timeout_s: float = Field(5.0, gt=0, le=60)
    """Time in which a connection's TLS handshake and each request's head have to arrive; one that waits longer is closed."""
    ice_denied: tuple[IPvAnyNetwork, ...] = ()
    """Networks whose addresses in an offer are never tried, e.g. private ones, besides link-local, multicast, reserved and
    (unless the server is bound to loopback) loopback addresses, which never are."""
    session_bytes_max: int = Field(1024 * 1024, ge=1024)
    """Largest session object beside an offer in bytes; a larger one answers 413."""
    backlog_ms_max: Ms = 10_000
    """Audio of a WebSocket client that waits to be analysed; over it the socket is not read until it is less."""
    close_timeout_s: float = Field(2.0, gt=0, le=30)
    """Time that a closing WebSocket has to take its last events; then the connection is cut."""
    resume_window_s: float = Field(30.0, ge=0, le=3600)
    """Time in which a client that asked for it may come back to its conversation after its connection was lost; 0: none may."""
    detached_max: int = Field(100, ge=0, le=10_000)
    """Sessions that wait for their client at once, each in its place; one more that is lost ends."""
    drain_timeout_s: float = Field(30.0, ge=0, le=3600)
    """Time that a stopping server gives its sessions to end by themselves; a second signal ends them at once."""
    page_dir: Path | None = None
    """Folder of the built page; unset takes `web_client/dist` beside the package."""
    tenant_header: str | None = Field(None, min_length=1)
    """Name of the request header, set by a proxy that is trusted, that says whose session it is; unset: all are one's."""
    cors_origins: tuple[str, ...] = ()
    """Browser origins, besides the server's own page, that may call the HTTP routes; `*` for any."""
    api_keys: dict[str, SecretStr] = Field(default_factory=dict)
    """API keys by name, 16 characters or more each; with one, every request needs one. The name is the session's tenant."""
    api_keys_file: Path | None = None
    """File with a line `name=key` for each further API key."""
    insecure: bool = False
    """Start without API keys on an address that others can reach: everybody may use the server."""
    client_secrets_max: int = Field(1000, ge=1, le=100_000)
    """Live short-lived secrets of one API key; more answer 429."""
    client_secret_session_bytes_max: int = Field(64 * 1024, ge=1024)
    """Largest body of a request for a short-lived secret in bytes; a larger one answers 413."""
    tls: bool = False
    """Serve HTTPS: with the certificate below, else with one that the server makes and signs itself."""
    tls_certificate: Path | None = None
    """Certificate chain in PEM; needs `tls_key`, and turns TLS on."""
    tls_key: Path | None = None
    """The certificate's private key in PEM, without a passphrase."""
    tls_dir: Path | None = None
    """Folder of the self-signed certificate and its key; unset takes `duplex` in the user's cache folder."""
    requests_per_min: int = Field(600, ge=1)
    """Requests of one address (IPv6: one /64) in a minute; more answer 429. Loopback addresses are not counted."""
    sessions_per_min: int = Field(60, ge=1)
    """Sessions opened in a minute by one address, counted as above, and with one short-lived secret; more answer 429."""
    key_requests_per_min: int = Field(6000, ge=1)
    """Requests with one API key, and the secrets made with it, in a minute; more answer 429."""
    key_sessions_per_min: int = Field(600, ge=1)
    """Sessions opened in a minute with one API key and the secrets made with it; more answer 429."""
    caller_sessions_max: int = Field(20, ge=1)
    """Live sessions at a time of one address that comes without an API key of its own, counted as above, and of one
    short-lived secret; more answer 429."""
    key_sessions_max: int = Field(200, ge=1)
    """Live sessions at a time with one API key and the secrets made with it; more answer 429."""
    callers_max: int = Field(10_000, ge=100)
    """Addresses, and secrets, that are counted at once; past it those that asked longest ago begin anew."""
    trusted_proxies: tuple[IPvAnyNetwork, ...] = ()
    """Addresses or networks of proxies whose X-Forwarded-For is believed; without any it is ignored."""

    @model_validator(mode="after")
    def _certificate_and_key(self) -> ServerSettings:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key need each other")
        return self


class MediaSettings(_Section):
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


class TurnSettings(_Section):
    """When the user has begun and finished speaking. Durations count input media."""

    voice_threshold: Probability = 0.5
    """VAD probability at which a window counts as voice (`threshold` of server_vad overrides it)."""
    release_threshold: Probability = 0.35
    """Probability under which a window counts as silence; between the two the last verdict stands."""
    onset_ms: Ms = 96
    """Voiced time that makes an onset."""
    pause_ms: Ms = 32
    """Silence after which transcription and the semantic end of turn begin to compute; speech that goes on takes it back. One
    VAD window: two begin 32 ms later, and take back one in seven less."""
    speculate: bool = True
    """Begin the reply as soon as the pause's words are there; it is adopted with the turn, or thrown away unheard."""
    prefill: bool = True
    """While the user speaks the thinker reads the conversation ahead, and the words that are known so far, in its idle time;
    only where it keeps what it has read."""
    partial_every_ms: Ms = 700
    """Voice between two partial transcripts of a turn, for clients that want its words; 0 gives none. They are work for the
    stage's idle time, and are left out where one would take longer than `stages.idle_step_ms_max`."""
    first_look_ms: Ms = 200
    """Silence after which it is decided whether the turn has ended (semantic_vad)."""
    first_look_ms_low: Ms = 800
    """The same for eagerness low, which lets people think inside a sentence."""
    look_every_ms: Ms = 400
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
    input_stall_ms: Ms = 1000
    """Wall time without any media after which an open utterance is closed."""
    input_buffer_ms_max: Ms = 120_000
    """Input audio kept per session; past it the oldest is dropped."""
    commit_ms_min: Ms = 100
    """A manual commit of less audio is an error."""


class BargeInSettings(_Section):
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
    hold_ms: Ms = 256
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


class EchoSettings(_Section):
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


class PacingSettings(_Section):
    """How far ahead of the listener each stage may work."""

    network_jitter_ms: Ms = 40
    """p95 of network jitter assumed before it is measured."""
    client_buffer_ms: Ms = 60
    """Client jitter buffer assumed before it is reported."""
    stage_jitter_ms: Ms = 220
    """p95 of the stages' own output jitter assumed before it is measured."""
    codec_unit_ms: Ms = 80
    """One unit of the vocoder that cannot be preempted."""
    chunk_ms_first: int = Field(100, ge=20, le=2000)
    """Audio of a reply's first vocoder step; each further step doubles it up to the next setting."""
    chunk_ms_max: int = Field(400, ge=20, le=5000)
    """Longest vocoder step."""
    lead_ms_min: Ms = 200
    """Floor of the lead target."""
    lead_ms_websocket: Ms = 5000
    """Default run-ahead of WebSocket audio; `duplex.lead_ms` sets it per session."""
    generated_ms_max: Ms = 30_000
    """Bound on audio generated but not sent, whatever the run-ahead."""
    tick_start_delay_ms: Ms = 40
    """Silence before a reply of a model in lock-step, against the jitter of its ticks."""
    first_clause_words_max: int = Field(4, ge=1, le=50)
    """Words of a reply's first clause where no punctuation ends it before: fewer speak sooner, more sound smoother."""
    speculative_ms_max: Ms = 600
    """Sound made of a reply before its turn has ended; 0 makes its text alone."""
    clauses_ahead: int = Field(2, ge=1, le=16)
    """Clauses the thinker may be ahead of the talker."""
    text_chars_max: int = Field(8_000, ge=100)
    """Text buffered from a thinker that cannot be paused; past it the reply ends as incomplete."""
    first_deadline_ms: Ms = 1000
    """A reply without audio for this long is served as critically as one that runs dry."""


class SchedulingSettings(_Section):
    """Who is served first at the stages."""

    policy: Literal["fcfs", "fcfs_capped", "round_robin", "chunk_deadline", "listener", "oracle"] = "listener"
    """`listener` steers by the playback fronts; the others are for comparison (`oracle` in the simulator only)."""
    pressing_ms: Ms = 1000
    """chunk_deadline: a session is pressing this long before its newest chunk begins to play."""
    ride_units: int = Field(2, ge=0, le=1000)
    """listener: while somebody waits for first audio, others share a step only if they run dry within so many units; where
    time is spare to work ahead, all do."""
    spare_lead_ms: int = Field(20_000, ge=0, le=600_000)
    """listener, on devices other than `cpu`: how far beyond the lead target idle time works ahead, if nobody interrupts."""
    spare_cut_share: float = Field(0.3, gt=0, le=1)
    """Share of replies that are cut from which on nothing is made ahead of the lead target."""
    tenant_weights: dict[str, Annotated[float, Field(gt=0, le=1000)]] = Field(default_factory=dict)
    """Shares of the stages by tenant, where tenants compete; one that is not named has weight 1."""


class ConversationSettings(_Section):
    """What a session keeps."""

    items_max: int = Field(2_000, ge=2)
    """Items in a conversation; at the bound the oldest are forgotten."""
    text_chars_max: int = Field(100_000, ge=100)
    """Characters of one text item or of the instructions."""
    chars_max: int = Field(1_000_000, ge=100)
    """Characters of all items of a conversation that clients wrote, and their turns; at the bound the oldest are forgotten."""
    images_max: int = Field(4, ge=0, le=64)
    """Images (`input_image`) in one item, where the model pack can read them; 0: none is taken."""
    image_bytes_max: int = Field(4 * 1024 * 1024, ge=64)
    """Largest image, decoded from base64. The whole event is bounded by `server.event_bytes_max`."""
    image_px_max: int = Field(16_000_000, ge=1, le=80_000_000)
    """Width times height of an image, as its head says: 3 bytes each while it is read."""
    images_unread_max: int = Field(8, ge=1, le=1000)
    """Images of one session that wait to be read, and are kept until then; more are refused."""
    image_wait_ms_max: Ms = 3000
    """An answer waits for images to be read until this long after it was asked for; one that is read later is there for the next."""
    image_text_chars_max: int = Field(400, ge=1, le=10_000)
    """Characters kept of what is read in one image; the rest is cut off."""
    event_ring_max: int = Field(1_000, ge=1)
    """Server events kept for a resume."""
    history_tokens_max: int | None = Field(None, ge=64)
    """Tokens of conversation the thinker is given at most, by the model pack's count; unset takes the pack's own bound. Past
    it whole oldest turns are left out; the instructions stay."""
    history_kept_share: float = Field(0.25, gt=0, lt=1)
    """Share of that bound which is left when turns are left out: with less of it that happens less often, and the thinker
    forgets more at once. It then has to read anew what is left."""


class SessionSettings(_Section):
    """How a session begins and how long it lasts."""

    greeting_text: str | None = Field(None, min_length=1, max_length=4000)
    """Spoken by the model as soon as a session can carry it; `duplex.greeting` sets it per session."""
    greeting_instructions: str | None = Field(None, min_length=1, max_length=4000)
    """Instead of a text: what the model is told, so that it greets in words of its own."""
    greeting_delay_ms: Ms = 200
    """A greeting waits so long after the connection for a client's first session.update, and greets at once behind it."""
    length_s_max: int = Field(14_400, ge=0, le=30 * 24 * 3600)
    """Greatest length of a session in seconds; 0: none."""
    ending_warning_s: float = Field(60.0, ge=0, le=3600)
    """So long before that the client is told (`duplex.session.ending`)."""
    ending_grace_s: float = Field(15.0, ge=0, le=600)
    """The reply that plays at the end may go on for so long; no other begins."""

    @model_validator(mode="after")
    def _one_greeting(self) -> SessionSettings:
        if self.greeting_text is not None and self.greeting_instructions is not None:
            raise ValueError("greeting_text and greeting_instructions: give one of them")
        return self


class StageSettings(_Section):
    """Bounds of the stage runners."""

    queue_ms_max: Ms = 600_000
    """Media waiting in one stage's queue over all sessions; past it new work is refused."""
    step_timeout_s: float = Field(10.0, gt=0)
    """A stage without progress for this long fails the replies it holds, and is started anew."""
    idle_step_ms_max: Ms = 100
    """A stage whose steps are measured to take longer takes no work for idle time (partial transcripts): no step can be
    stopped, so other work that comes would wait for the rest of it."""
    raises_max: int = Field(2, ge=1, le=100)
    """Steps in a row that may raise before the stage is started anew. One alone may be its input's fault."""
    processes: tuple[StageRole, ...] | None = None
    """Stages, by role, that run in a process of their own: one that is killed or stopped there takes nothing with it. Unset takes
    the model pack's own choice; `[]` keeps all of them in the server's process."""
    heartbeat_s: float = Field(1.0, gt=0, le=60)
    """Time between two signs of life that a stage's process is asked for while it says nothing by itself."""
    heartbeats_missed_max: int = Field(3, ge=1, le=100)
    """More than so many unanswered in a row, and the process is killed and started anew."""
    restart_s_first: float = Field(0.5, ge=0.01, le=60)
    """Wait before a stage that went down is started; it doubles with each further failure in `restart_window_s`."""
    restart_s_max: float = Field(30.0, ge=0.01, le=3600)
    """Bound on that wait."""
    restarts_max: int = Field(5, ge=1, le=100)
    """More failures than this in `restart_window_s`, and the stage is given up: started only every `restart_slow_s`."""
    restart_window_s: float = Field(300.0, gt=0, le=86_400)
    """How long a failure counts."""
    restart_slow_s: float = Field(60.0, gt=0, le=3600)
    """Wait before a stage that was given up is tried again."""
    start_timeout_s: float = Field(300.0, gt=0, le=3600)
    """A stage that has not loaded its weights again within this time has failed to start."""
    abandoned_max: int = Field(4, ge=1, le=100)
    """Hung threads of one stage that are left to themselves at once; with more it is not started before one has returned."""


class TelemetrySettings(_Section):
    """What the server tells those who run it, besides its measures and logs."""

    live_per_s: float = Field(5.0, gt=0, le=30)
    """Snapshots per second to each watcher of `/v1/duplex/live`; nothing is computed while nobody watches."""
    live_watchers_max: int = Field(8, ge=0, le=1000)
    """Watchers of `/v1/duplex/live` at once; one more answers 503."""
    live_stall_s: float = Field(10.0, gt=0, le=600)
    """A watcher that takes nothing for this long is dropped."""
    window_s: float = Field(300.0, ge=1, le=3600)
    """Length of the sliding window over which the live snapshot speaks."""
    bucket_s: float = Field(5.0, ge=1, le=60)
    """Length of one step of its history."""
    history_s: float = Field(600.0, ge=1, le=7200)
    """How far its history goes back."""
    window_values_max: int = Field(8192, ge=16, le=1_000_000)
    """Values kept of one measure (16 bytes each); one that comes faster is described by its newest values."""
    timeline_events_max: int = Field(1024, ge=0, le=1_000_000)
    """Events, and as many stage jobs, kept of each session for its trace (about 200 bytes each); 0 keeps none."""
    timeline_text: bool = False
    """Keep in the trace what was heard and said, as text. Off: only its length."""
    timeline_ended_max: int = Field(32, ge=0, le=10_000)
    """Sessions whose trace is kept after their end."""
    timeline_keep_s: float = Field(900.0, ge=0, le=86_400)
    """How long it is kept."""
    list_sessions: bool = True
    """Tell callers on this machine, and nobody else, the ids of the sessions that have a trace."""
    otlp_endpoint: str | None = Field(None, pattern=r"^https?://[^/]+")
    """OTLP/HTTP collector to which a span per turn is sent, e.g. `http://127.0.0.1:4318`; unset takes
    OTEL_EXPORTER_OTLP_ENDPOINT or sends none. Needs the extra `otel`."""
    otlp_queue_max: int = Field(2048, ge=16, le=1_000_000)
    """Spans that wait to be sent; at the bound new ones are dropped."""


class AdmissionSettings(_Section):
    """When one more session is taken, and what is shed before anyone is refused."""

    measured: bool = True
    """Whether what is measured decides; if not, only `server.sessions_max` and the model pack's own bound do."""
    load_target: float = Field(0.85, gt=0, le=1)
    """Share of a stage, a device or the event loop that sessions may be expected to take; one more is refused past it."""
    sessions_prior: int | None = Field(None, ge=1)
    """Sessions believed possible until the stages are measured; unset takes the model pack's own number."""
    sample_s: float = Field(1.0, gt=0, le=10)
    """Time between two looks at the stages."""
    window_s: float = Field(30.0, gt=0, le=3600)
    """Half of what is known of a session's cost is from the last this many seconds (longer with few sessions)."""
    settle_s: float = Field(10.0, gt=0, le=600)
    """Sessions younger than this teach nothing; also the time in which, after an overload, one more is taken again."""
    reach: float = Field(1.5, ge=1, le=10)
    """Beyond the number believed at first, the sessions that have settled may grow by this factor at a time."""
    memory_bytes_max: int = Field(0, ge=0)
    """Bound on the bytes that the stages declare per session, over all sessions; 0: no bound."""
    slo_ttfas_s: float = Field(1.0, gt=0, le=60)
    """A turn whose first sound comes later than this after the end of the user's speech is a miss. What the turn policy
    waits beyond its first look counts for nothing here: it is no matter of load."""
    slo_underrun_ms: Ms = 100
    """A turn with a longer gap inside its reply is a miss."""
    slo_misses_max: float = Field(0.1, gt=0, lt=1)
    """While a larger share of the recent turns missed, nobody is admitted."""
    slo_window_s: float = Field(60.0, gt=0, le=3600)
    """Turns older than this are not recent."""
    retry_after_s_max: int = Field(60, ge=1, le=3600)
    """Longest Retry-After of a refusal."""
    video_load: float = Field(0.7, gt=0, le=1)
    """Past this share of any limit the cameras of all sessions are sampled less, by half a step; with less load, more."""
    video_share_min: float = Field(0.125, gt=0, le=1)
    """Least share of `media.video_fps_max` that is sampled."""


class CameraSettings(_Section):
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


class RecordingSettings(_Section):
    """Records of whole sessions, for `duplex replay`: they hold what was said, as text. See docs/recording.md."""

    directory: Path | None = None
    """Folder of the recordings, for its owner's eyes only (mode 0700, files 0600); unset: nothing is recorded. No client can
    turn it on, and a session that is recorded says so (`duplex.recorded`)."""
    voice: bool = False
    """Keep the samples of the voice that answers too; off: their length and hash. The user's sound is never kept."""
    session_bytes_max: int = Field(32 * 1024 * 1024, ge=64 * 1024)
    """Longest file of one session, compressed; past it the record ends and the session goes on."""
    session_minutes_max: float = Field(120.0, gt=0, le=10_080)
    """Longest time of one session that is recorded; past it likewise."""
    files_max: int = Field(500, ge=1, le=100_000)
    """Recordings in the folder; for one more the oldest ended one is deleted."""
    total_bytes_max: int = Field(2 * 1024 * 1024 * 1024, ge=64 * 1024)
    """Their size together, one that is being written counted as long as it may become; likewise."""
    keep_days: float = Field(7.0, gt=0, le=3650)
    """Recordings that ended longer ago are deleted, as long as the server runs."""
    flush_s: float = Field(0.5, gt=0, le=60)
    """How often what has happened is written; a crash of the process costs at most this much of the record."""
    waiting_steps_max: int = Field(20_000, ge=100, le=10_000_000)
    """Steps of all sessions that wait to be written (some 30 a second of each); a session whose step does not fit is recorded
    no further."""
    close_timeout_s: float = Field(5.0, gt=0, le=600)
    """Longest that a stopping server waits for what is not written yet."""

    @model_validator(mode="after")
    def _one_fits(self) -> RecordingSettings:
        if self.session_bytes_max > self.total_bytes_max:
            raise ValueError("session_bytes_max is more than total_bytes_max")
        return self


class ModelSettings(_Section):
    """Which model pack, and its own options."""

    pack: str = "local"
    """Name in the entry-point group `duplex.models`."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Checked by the pack itself."""


CLIENT_KEY_VARIABLE = "DUPLEX_API_KEY"
"""Environment variable of the commands that reach a server: the key they bring. It is no setting."""
_TARGET_MS_MAX = 5000
"""Lead target and one chunk, generously."""


class Settings(BaseSettings):
    """The whole configuration."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix="DUPLEX_", env_nested_delimiter="__")

    server: ServerSettings = ServerSettings()
    media: MediaSettings = MediaSettings()
    turn: TurnSettings = TurnSettings()
    barge_in: BargeInSettings = BargeInSettings()
    echo: EchoSettings = EchoSettings()
    pacing: PacingSettings = PacingSettings()
    scheduling: SchedulingSettings = SchedulingSettings()
    conversation: ConversationSettings = ConversationSettings()
    session: SessionSettings = SessionSettings()
    stages: StageSettings = StageSettings()
    admission: AdmissionSettings = AdmissionSettings()
    camera: CameraSettings = CameraSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    recording: RecordingSettings = RecordingSettings()
    model: ModelSettings = ModelSettings()
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe lines that are logged; none holds what was said."""
    threads: int | None = Field(None, ge=1)
    """Thread budget of the model; unset takes the machine's cores."""

    @model_validator(mode="after")
    def _reserve_fits(self) -> Settings:
        """What is made ahead has to be kept: a target of a few seconds, the reserve, and a chunk."""
        room = self.pacing.generated_ms_max - _TARGET_MS_MAX
        if self.scheduling.policy == "listener" and self.scheduling.spare_lead_ms > max(0, room):
            raise ValueError(
                f"scheduling.spare_lead_ms: at most pacing.generated_ms_max − {_TARGET_MS_MAX} = {max(0, room)}"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Put the TOML file named by the class's configuration under the environment."""
        return (init_settings, env_settings, TomlConfigSettingsSource(settings_cls))


class ConfigError(Exception):
    """A setting is wrong; the message names the key and says what it takes."""


def load(path: Path | None = None, **flags: Any) -> Settings:
    """Read the configuration.

    Args:
        path: TOML file; None reads none.
        flags: nested values that win over all else, e.g. `server={"port": 0}`.
    Raises:
        ConfigError: the file is missing or unreadable, or a value is unknown or out of range.
    """
    if path is not None and not path.is_file():
        raise ConfigError(f"configuration file not found: {path}")

    class _Sourced(Settings):
        model_config = SettingsConfigDict(toml_file=path)

    unknown = sorted(k for k in os.environ if k.startswith("DUPLEX_") and not _names_a_setting(k))
    if unknown:
        raise ConfigError(f"unknown environment setting: {', '.join(unknown)}")
    try:
        return _Sourced(**flags)
    except ValidationError as error:
        lines = [": ".join(filter(None, (".".join(map(str, e["loc"])), e["msg"]))) for e in error.errors()]
        raise ConfigError("bad configuration\n  " + "\n  ".join(lines)) from error
    except ValueError as error:  # a TOML syntax error, or JSON in an environment value
        raise ConfigError(f"bad configuration: {error}") from error


def _names_a_setting(variable: str) -> bool:
    if variable == CLIENT_KEY_VARIABLE:
        return True
    head = variable.removeprefix("DUPLEX_").lower().split("__")[0]
    return head in Settings.model_fields
