"""The camera of a session: what is asked of the reader, and what the thinker is told of it.

    frames  ──•────•────•────•────•────•──
    speech      │onset ▇▇▇▇▇▇▇▇ │pause      │the answer starts
    reader      └─ read ─┘      └─ read ──┘ └ the newest reading, with its age; no longer than `wait_ms_max` is waited

A frame is read once. One reading is under way at a time, so that a slow reader is asked less and not more. An answer takes
the newest reading that is there when it starts; one that comes later belongs to a turn that is over, and is dropped. The
first frame of a camera that was just switched on is read at once, which loads the model before it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from duplex.config import CameraSettings
from duplex.payloads import INPUT_LANE, Address, JobId, Message, Pace, Payload, Reading, Role, StageError
from duplex.session.effects import Drop, Outbox, SubmitPicture
from duplex.session.traits import Traits
from duplex.timeline.watermark import VideoWatermark
from duplex.units import MonoNs, Samples, ns_from_ms, samples_from_ms, seconds_from_ns

_BETWEEN_LINES = " / "


class Camera:
    """Follows one session's camera.

    Args:
        session: id, for addresses.
        settings: bounds.
        lag_ms: how far the video watermark trails the audio's at most.
        traits: without a reader, and in tick mode, nothing is read.
    """

    def __init__(self, session: str, settings: CameraSettings, lag_ms: int, traits: Traits, outbox: Outbox) -> None:
        self.watermark = VideoWatermark(samples_from_ms(lag_ms))
        self._settings = settings
        self._age_max_ns = ns_from_ms(settings.frame_age_ms_max)
        self._address = Address(session=session, lane=INPUT_LANE, epoch=0, tenant=traits.tenant)
        self._reads = traits.reads and settings.read and not traits.tick_mode
        self._outbox = outbox
        self._newest: MonoNs | None = None
        """When the newest frame came."""
        self._asked: MonoNs | None = None
        """The frame that was last given to the reader."""
        self._job: JobId | None = None
        """The reading under way."""
        self._wait_until = MonoNs(0)
        self._reading: Reading | None = None

    def sampled(self, at: MonoNs, audio: Samples, now: MonoNs) -> None:
        """Note a frame, which came at `at`, when the audio watermark stands at `audio`."""
        behind = samples_from_ms(seconds_from_ns(MonoNs(now - at)) * 1000)
        self.watermark.sampled(Samples(max(audio - behind, 0)))
        was_off = self._newest is None or at - self._newest > self._age_max_ns
        self._newest = at
        if was_off:
            self.look(now)

    def look(self, now: MonoNs) -> None:
        """The user may be showing something: have the newest frame read, unless that was done."""
        frame = self._newest
        if not self._reads or frame is None or frame == self._asked or now - frame > self._age_max_ns:
            return
        if self._job is not None:
            return
        self._job, self._asked = self._outbox.next_job(), frame
        pace = Pace(since=now, speculative=True)
        self._outbox.add(SubmitPicture(id=self._job, address=self._address, pace=pace))

    def look_for_answer(self, now: MonoNs) -> None:
        """An answer may begin soon, and waits a little for what is read now."""
        self.look(now)
        self._wait_until = MonoNs(now + ns_from_ms(self._settings.wait_ms_max))

    def awaited_until(self, now: MonoNs) -> MonoNs | None:
        """Return how long an answer waits for the reading under way; None: it does not."""
        return self._wait_until if self._job is not None and now < self._wait_until else None

    def take(self, job: JobId, payload: Payload | StageError) -> bool:
        """Take a reading; return False if the job is not ours, or was given up."""
        if job != self._job:
            return False
        self._job = None
        if isinstance(payload, Reading):
            self._reading = payload
            self._count("read" if payload.lines else "nothing")
        else:
            self._count("failed")
        return True

    def legible(self, now: MonoNs) -> str | None:
        """Return what was read last; None where nothing is legible, or the camera is off."""
        reading = self._reading
        if reading is None or now - reading.at > self._age_max_ns:
            return None
        return legible_in(reading, self._settings.text_chars_max)

    def note(self, now: MonoNs) -> str | None:
        """Return what an answer is told, None where nothing is legible or the camera is off."""
        text, reading = self.legible(now), self._reading
        if text is None or reading is None:
            return None
        return f"Text visible on camera ({seconds_from_ns(MonoNs(max(0, now - reading.at))):.1f} s ago): {text}"

    def give_up(self) -> None:
        """Drop the reading under way: the turn that it was for is over."""
        if self._job is not None:
            self._outbox.add(Drop(role=Role.READ, job=self._job))
            self._job = None
            self._count("late")

    def _count(self, outcome: str) -> None:
        self._outbox.observe("duplex_camera_readings_total", 1, outcome=outcome)


def legible_in(reading: Reading, chars_max: int) -> str | None:
    """Return what was read on one line, cut off at a length; None: nothing."""
    text = " ".join(_BETWEEN_LINES.join(reading.lines).split())
    return text[:chars_max].strip() or None


def with_note(messages: Sequence[Message], note: str | None) -> tuple[Message, ...]:
    """Put a note behind the words of the user that are to be answered.

    It is the user's word and not the system's: whoever holds a sign before the camera shall not instruct the model. It stands
    behind the words, so that an engine's cached prefix reaches up to there; it is part of this one prompt only, and of no
    later one's history.
    """
    if note is None:
        return tuple(messages)
    last = messages[-1] if messages else None
    if last is None or last.role != "user":
        return (*messages, Message(role="user", text=note))
    return (*messages[:-1], Message(role="user", text=f"{last.text}\n{note}"))
