"""What the server tells and keeps for those who run it: telemetry and recordings."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, model_validator

from duplex.config.section import Section


class TelemetrySettings(Section):
    """What the server tells those who run it, besides its measures and logs."""

    live_per_s: float = Field(5.0, gt=0, le=30)
    """Snapshots per second to each watcher of `/v1/duplex/live`; nothing is computed while nobody watches."""
    live_watchers_max: int = Field(8, ge=0, le=1000)
    """Watchers of `/v1/duplex/live` at once; one more answers 503."""
    live_share_max: float = Field(0.04, gt=0, le=1)
    """Share of the event loop's time that snapshots may take; a costly one is shown for longer."""
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


class RecordingSettings(Section):
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
