"""Speak a recording to a running server over WebRTC, as a client that knows the time of everything it sent and heard.

One timeline in samples at 48 kHz; 0 is the recording's first sample as it is sent:

    sent    |hello, what time is it|······································
                                   └ end of energy: speech_end
    heard   ·····························|it is late ...|·················
                                         └ first audible sample; ttfas = this − speech_end

Heard means: at this client, played without a buffer of its own as packets come out of aiortc's jitter buffer (80 ms).
"""

from __future__ import annotations

import asyncio
import json
import wave
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import av
import numpy as np
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError
from numpy.typing import NDArray

from duplex.client_key import headers_of
from duplex.payloads import Int16Array

Levels = NDArray[np.float64]
RATE = 48_000
_PACKET = 960
_WINDOW = RATE // 100
"""10 ms: the grain of "audible"."""
_AUDIBLE_DBFS = -50.0
_BELOW_PEAK_DB = 35.0
"""A window this far under the loudest one of a recording is no speech."""
_QUIET_S = 1.0
"""With nothing open for this long after the recording, the conversation is over."""
_CONNECT_S = 15.0


class TalkError(Exception):
    """The conversation did not come about; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkOptions:
    """What to say, and to whom."""

    recording: Int16Array
    """Shape (n,), mono, 48 kHz."""
    url: str
    speech_end_s: float | None = None
    """Where the speech in the recording ends; None measures the end of energy."""
    key: str | None = field(default=None, repr=False)
    """API key of the server; None: it asks for none."""
    timeout_s: float = 60.0
    """Longest wait for the answer to end, from the end of the recording."""


@dataclass(slots=True)
class Talk:
    """What happened."""

    you: list[str] = field(default_factory=list)
    """Transcripts of the recording's turns."""
    answer: str = ""
    """Transcript of all replies."""
    status: str = "none"
    """Of the last reply: completed, cancelled, failed, incomplete; none when there was no reply."""
    speech_end_s: float = 0.0
    ttfas_heard_s: float | None = None
    """End of the speech to the first audible sample; None when nothing was heard after it."""
    split: dict[str, float] = field(default_factory=dict)
    """The server's own latency split of the last turn, in seconds; its end of speech is the VAD's estimate."""
    errors: list[str] = field(default_factory=list)
    heard: Int16Array = field(default_factory=lambda: np.zeros(0, np.int16))
    """The answer on the timeline, from its 0: shape (n,), mono, 48 kHz."""

    def to_json(self) -> str:
        """Return everything but the audio."""
        shown = asdict(self)
        del shown["heard"]
        return json.dumps(shown, indent=2, ensure_ascii=False)


def read_recording(path: Path) -> Int16Array:
    """Read an audio file of any format as mono at 48 kHz, shape (n,).

    Raises:
        TalkError: the file is missing, holds no audio, or is damaged.
    """
    resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE)
    try:
        with av.open(str(path)) as container:
            if not container.streams.audio:
                raise TalkError(f"{path} holds no audio")
            frames = [out for frame in container.decode(audio=0) for out in resampler.resample(frame)]
        frames += resampler.resample(None)
    except (OSError, av.FFmpegError) as error:
        raise TalkError(f"cannot read {path}: {error}") from error
    pieces = [frame.to_ndarray().reshape(-1) for frame in frames]
    if not pieces:
        raise TalkError(f"{path} holds no audio")
    return np.concatenate(pieces).astype(np.int16)


def write_recording(path: Path, pcm: Int16Array) -> None:
    """Write mono audio at 48 kHz as a wav file."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(pcm.astype("<i2").tobytes())


def levels_dbfs(pcm: Int16Array) -> Levels:
    """Return the level of each whole 10 ms window, in dB of full scale."""
    windows = pcm[: len(pcm) // _WINDOW * _WINDOW].reshape(-1, _WINDOW).astype(np.float64)
    power = np.mean(np.square(windows / 32768.0), axis=1)
    levels: Levels = 10 * np.log10(np.maximum(power, 1e-12))
    return levels


def end_of_energy(pcm: Int16Array) -> int:
    """Return the sample at which the last loud window of a recording ends; 0 for silence."""
    levels = levels_dbfs(pcm)
    if not len(levels):
        return 0
    loud = np.flatnonzero(levels > max(_AUDIBLE_DBFS, float(levels.max()) - _BELOW_PEAK_DB))
    return int(loud[-1] + 1) * _WINDOW if len(loud) else 0


def first_audible(pcm: Int16Array, after: int) -> int | None:
    """Return the start of the first audible window at or after sample `after`; None when there is none."""
    first = -(-after // _WINDOW)
    loud = np.flatnonzero(levels_dbfs(pcm)[first:] > _AUDIBLE_DBFS)
    return int(first + loud[0]) * _WINDOW if len(loud) else None


class Timeline:
    """Places heard packets where a player without a buffer of its own would play them.

    Within sound, packets follow each other by their timestamps and a late one delays what follows; in silence the
    player catches up.
    """

    def __init__(self) -> None:
        self._pieces: list[tuple[int, Int16Array]] = []
        self._shift: int | None = None
        self._end = 0

    def place(self, pcm: Int16Array, pts: int, arrived: int) -> None:
        """Take one packet.

        Args:
            pcm: shape (n,), mono, 48 kHz.
            pts: its RTP timestamp, unwrapped.
            arrived: when it came, on the timeline.
        """
        silent = not bool(np.any(np.abs(pcm.astype(np.int32)) > 32))
        if self._shift is None or silent or pts + self._shift < arrived:
            self._shift = arrived - pts
        at = max(self._end, pts + self._shift, 0)
        self._pieces.append((at, pcm))
        self._end = at + len(pcm)

    def render(self) -> Int16Array:
        """Return everything heard so far, silence between."""
        heard = np.zeros(self._end, np.int16)
        for at, pcm in self._pieces:
            heard[at : at + len(pcm)] = pcm
        return heard


class _Recording(MediaStreamTrack):  # type: ignore[misc]
    """The recording at real time, then silence."""

    kind = "audio"

    def __init__(self, pcm: Int16Array) -> None:
        super().__init__()
        self._pcm = pcm
        self._packets = 0
        self.began: float | None = None
        """Loop time of the first sample."""
        self.finished = asyncio.Event()

    async def recv(self) -> Any:
        loop = asyncio.get_running_loop()
        if self.began is None:
            self.began = loop.time()
        await asyncio.sleep(self.began + self._packets * _PACKET / RATE - loop.time())
        start = self._packets * _PACKET
        pcm = self._pcm[start : start + _PACKET]
        if len(pcm) < _PACKET:
            self.finished.set()
            pcm = np.pad(pcm, (0, _PACKET - len(pcm)))
        frame = av.AudioFrame.from_ndarray(pcm.reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = RATE, start, Fraction(1, RATE)
        self._packets += 1
        return frame


class _Conversation:
    """Follows the server's events."""

    def __init__(self, talk: Talk, show: Callable[[str], None]) -> None:
        self._talk = talk
        self._show = show
        self._open: set[str] = set()
        self._answered = False
        self.changed = asyncio.Event()

    @property
    def over(self) -> bool:
        """Whether there was a reply and nothing is open."""
        return self._answered and not self._open

    def take(self, text: str) -> None:
        """Take one server event."""
        event = json.loads(text)
        self._follow(event)
        self._note(event)
        self.changed.set()

    def _follow(self, event: dict[str, Any]) -> None:
        """Keep what is open: speech, a turn without its reply, replies, sound."""
        match event["type"]:
            case "input_audio_buffer.speech_started":
                self._open.add("speech")
            case "input_audio_buffer.committed":
                self._open.discard("speech")
                self._open.add("turn")
            case "response.created":
                self._open.discard("turn")
                self._open.add(event["response"]["id"])
            case "output_audio_buffer.started":
                self._open.add("sound")
            case "output_audio_buffer.stopped" | "output_audio_buffer.cleared":
                self._open.discard("sound")
            case "response.done":
                self._answered = True
                self._open.discard(event["response"]["id"])

    def _note(self, event: dict[str, Any]) -> None:
        talk = self._talk
        match event["type"]:
            case "conversation.item.input_audio_transcription.completed":
                talk.you.append(event["transcript"])
                self._show(f"you:    {event['transcript']}")
            case "response.output_audio_transcript.delta" | "response.output_text.delta":
                talk.answer += event["delta"]
            case "response.done":
                talk.status = event["response"]["status"]
            case "duplex.metrics":
                talk.split = event["split"]
            case "error":
                talk.errors.append(event["error"]["message"])

    async def until_over(self) -> None:
        """Wait until nothing has been open for a while. Cancel: at any time."""
        while True:
            self.changed.clear()
            try:
                async with asyncio.timeout(_QUIET_S if self.over else None):
                    await self.changed.wait()
            except TimeoutError:
                return


async def talk_to(options: TalkOptions, show: Callable[[str], None]) -> Talk:
    """Hold the conversation and return what happened.

    Args:
        options: what to say, and to whom.
        show: told transcripts as they come, one line each.
    Raises:
        TalkError: the server cannot be reached, refuses, or does not answer in time.
    Cancel: hangs up.
    """
    end = end_of_energy(options.recording) if options.speech_end_s is None else round(options.speech_end_s * RATE)
    talk = Talk(speech_end_s=end / RATE)
    conversation, timeline = _Conversation(talk, show), Timeline()
    recording = _Recording(options.recording)
    peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    peer.createDataChannel("oai-events").on("message", conversation.take)
    peer.addTrack(recording)
    connected = asyncio.Event()
    listening: list[MediaStreamTrack] = []
    peer.on("track", listening.append)
    peer.on("connectionstatechange", connected.set)
    try:
        await _connect(peer, options, connected)
        async with asyncio.TaskGroup() as tasks:
            ears = tasks.create_task(_listen(listening[0], recording, timeline))
            ended = await _hold(recording, conversation, options.timeout_s)
            ears.cancel()
    finally:
        await peer.close()
    if not ended:
        raise TalkError(f"the answer had not ended {options.timeout_s:g} s after the recording")
    talk.heard = timeline.render()
    first = first_audible(talk.heard, end)
    talk.ttfas_heard_s = None if first is None else (first - end) / RATE
    return talk


async def _hold(recording: _Recording, conversation: _Conversation, timeout_s: float) -> bool:
    """Wait until the recording is spoken and answered; False when that takes too long."""
    await recording.finished.wait()
    try:
        async with asyncio.timeout(timeout_s):
            await conversation.until_over()
    except TimeoutError:
        return False
    return True


async def _connect(peer: Any, options: TalkOptions, connected: asyncio.Event) -> None:
    url = options.url
    if urlsplit(url).scheme not in ("http", "https"):
        raise TalkError(f"not an http address: {url}")
    await peer.setLocalDescription(await peer.createOffer())
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_CONNECT_S)) as http:
            headers = {"Content-Type": "application/sdp", **headers_of(options.key)}
            offer = peer.localDescription.sdp
            async with http.post(f"{url.rstrip('/')}/v1/realtime/calls", data=offer, headers=headers) as response:
                answer = await response.text()
                if response.status != 201:
                    raise TalkError(_reason(response.status, answer))
    except (aiohttp.ClientError, TimeoutError) as error:
        raise TalkError(f"cannot reach {url}: {error or 'no answer in time'}") from error
    await peer.setRemoteDescription(RTCSessionDescription(sdp=answer, type="answer"))
    try:
        async with asyncio.timeout(_CONNECT_S):
            while peer.connectionState != "connected":
                if peer.connectionState in ("failed", "closed"):
                    raise TalkError("the media connection failed")
                connected.clear()
                await connected.wait()
    except TimeoutError:
        raise TalkError("the media connection was not made in time") from None


def _reason(status: int, body: str) -> str:
    try:
        return f"the server refused ({status}): {json.loads(body)['error']['message']}"
    except (ValueError, KeyError, TypeError):
        return f"the server refused ({status})"


async def _listen(track: Any, recording: _Recording, timeline: Timeline) -> None:
    """Place what is heard until the track ends. Cancel: at any time."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            frame = await track.recv()
        except MediaStreamError:
            return
        began = recording.began if recording.began is not None else loop.time()
        channels = len(frame.layout.channels)
        pcm = frame.to_ndarray().reshape(-1, channels).astype(np.int32).mean(axis=1).astype(np.int16)
        timeline.place(pcm, frame.pts, round((loop.time() - began) * RATE))
