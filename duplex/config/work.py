"""How the stages work, for whom first, and for how many sessions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from duplex.config.section import Ms, Section

StageRole = Literal["vad", "end_of_turn", "transcribe", "think", "talk", "vocode", "tick", "read"]


class PacingSettings(Section):
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


class SchedulingSettings(Section):
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


class StageSettings(Section):
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
    join_timeout_s: float = Field(2.0, ge=0, le=600)
    """Time that steps which run at the server's end have to end themselves; a hung one is left behind."""
    abandoned_max: int = Field(4, ge=1, le=100)
    """Hung threads of one stage that are left to themselves at once; with more it is not started before one has returned."""


class AdmissionSettings(Section):
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
