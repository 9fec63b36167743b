"""One session: how it begins, what it keeps of its conversation, how long it lasts."""

from __future__ import annotations

from pydantic import Field, model_validator

from duplex.config.section import Ms, Section


class ConversationSettings(Section):
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
    audio_ms_max: Ms = 30_000
    """Audio (`input_audio`) of one item, which is transcribed as a turn is; 0: none is taken."""
    audio_unheard_max: int = Field(8, ge=1, le=1000)
    """Items with audio of one session that wait to be transcribed, and are kept until then; more are refused."""
    image_wait_ms_max: Ms = 3000
    """An answer waits for images to be read until this long after it was asked for; one that is read later is there for the next."""
    image_text_chars_max: int = Field(400, ge=1, le=10_000)
    """Characters kept of what is read in one image; the rest is cut off."""
    out_of_band_max: int = Field(4, ge=0, le=64)
    """Out-of-band responses of one session at once (`conversation: "none"`); 0: none is made."""
    input_items_max: int = Field(200, ge=0, le=10_000)
    """Items in the `input` of one response."""
    event_ring_max: int = Field(1_000, ge=1)
    """Server events kept for a resume."""
    event_ring_bytes_max: int = Field(2 * 1024 * 1024, ge=1024)
    """Bytes of text in them; past it the oldest events go."""
    event_ring_audio_bytes_max: int = Field(2 * 1024 * 1024, ge=0)
    """Bytes of audio in them (WebSocket, base64; 64 kB are a second at 24 kHz); past it the oldest audio goes, and the events stay."""
    event_ids_max: int = Field(1_000, ge=0)
    """Ids of client events remembered, where `duplex.resume` is on, so that one that is sent again is not applied again."""
    history_tokens_max: int | None = Field(None, ge=64)
    """Tokens of conversation the thinker is given at most, by the model pack's count; unset takes the pack's own bound. Past
    it whole oldest turns are left out; the instructions stay."""
    history_kept_share: float = Field(0.25, gt=0, lt=1)
    """Share of that bound which is left when turns are left out: with less of it that happens less often, and the thinker
    forgets more at once. It then has to read anew what is left."""


class SessionSettings(Section):
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
