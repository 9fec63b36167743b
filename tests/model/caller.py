"""A person on the phone: a call made with the openai client, its media an aiortc peer with a microphone and an ear."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from fractions import Fraction
from typing import Any

import av
import numpy as np
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError
from openai import AsyncOpenAI

from duplex.payloads import Int16Array

RATE = 48_000
PACKET = 960
CEILING_S = 60.0
"""Longest wait for one event; none is expected to come near."""
Event = dict[str, Any]


class Microphone(MediaStreamTrack):  # type: ignore[misc]
    """Says at real time what it is given, and silence in between."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self._waiting: deque[Int16Array] = deque()
        self._said = asyncio.Event()
        self._packets = 0
        self._began: float | None = None

    def say(self, pcm: Int16Array) -> None:
        """Queue audio: shape (n,), mono, 48 kHz."""
        padded = np.pad(pcm, (0, -len(pcm) % PACKET))
        self._waiting.extend(padded.reshape(-1, PACKET))
        self._said.clear()

    async def said(self) -> None:
        """Wait until all has been said."""
        await self._said.wait()

    async def recv(self) -> Any:
        loop = asyncio.get_running_loop()
        if self._began is None:
            self._began = loop.time()
        await asyncio.sleep(self._began + self._packets * PACKET / RATE - loop.time())
        if not self._waiting:
            self._said.set()
        pcm = self._waiting.popleft() if self._waiting else np.zeros(PACKET, np.int16)
        frame = av.AudioFrame.from_ndarray(pcm.reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = RATE, self._packets * PACKET, Fraction(1, RATE)
        self._packets += 1
        return frame


class EventLog:
    """A server's events so far; `until` waits for one after those already waited for."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._seen = 0
        self._came = asyncio.Event()

    def add(self, event: Event) -> None:
        """Take the next event."""
        self.events.append(event)
        self._came.set()

    async def until(self, kind: str) -> Event:
        """Wait for the next event of a type."""
        return await self.until_that(lambda event: event["type"] == kind, kind)

    async def until_that(self, wanted: Callable[[Event], bool], what: str) -> Event:
        """Wait for the next event that is wanted.

        Raises:
            AssertionError: none came; says which events did.
        """
        try:
            async with asyncio.timeout(CEILING_S):
                while True:
                    while self._seen < len(self.events):
                        self._seen += 1
                        if wanted(self.events[self._seen - 1]):
                            return self.events[self._seen - 1]
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError:
            raise AssertionError(f"no {what} after {self.kinds()[-20:]}") from None

    def of(self, kind: str) -> list[Event]:
        """Return all events of a type so far."""
        return [event for event in self.events if event["type"] == kind]

    def kinds(self) -> list[str]:
        """Return the types of all events so far, in order."""
        return [event["type"] for event in self.events]

    def said(self, item_id: str) -> str:
        """Return all text that came with the audio of an item."""
        deltas = self.of("response.output_audio_transcript.delta")
        return "".join(event["delta"] for event in deltas if event["item_id"] == item_id)


class Caller(EventLog):
    """A call and its events."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.openai = AsyncOpenAI(api_key="none", base_url=f"{url}/v1", max_retries=0)
        self.microphone = Microphone()
        self.call_id = ""
        self._heard: list[Int16Array] = []
        self._heard_more = asyncio.Event()
        self._peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._channel = self._peer.createDataChannel("oai-events")
        self._channel.on("message", lambda text: self.add(json.loads(text)))
        self._tracks: list[Any] = []
        self._peer.on("track", self._tracks.append)
        self._peer.addTrack(self.microphone)

    async def dial(self, session: Event | None) -> None:
        """Make the call and wait for its first event.

        Raises:
            openai.APIStatusError: the server refused.
        """
        await self._peer.setLocalDescription(await self._peer.createOffer())
        more: dict[str, Any] = {} if session is None else {"session": {"type": "realtime", **session}}
        created = await self.openai.realtime.calls.create(sdp=self._peer.localDescription.sdp, **more)
        self.call_id = created.response.headers["Location"].rsplit("/", 1)[1]
        await self._peer.setRemoteDescription(RTCSessionDescription(sdp=created.text, type="answer"))
        await self.until("session.created")

    async def listen(self) -> None:
        """Keep what is heard until the track ends. Cancel: at any time."""
        while True:
            try:
                frame = await self._tracks[0].recv()
            except MediaStreamError:
                return
            channels = len(frame.layout.channels)
            pcm = frame.to_ndarray().reshape(-1, channels).astype(np.int32).mean(axis=1)
            self._heard.append(pcm.astype(np.int16))
            self._heard_more.set()

    def heard(self) -> Int16Array:
        """Return all that has been heard, without the pauses in which nothing came: shape (n,), mono, 48 kHz."""
        return np.concatenate([np.zeros(0, np.int16), *self._heard])

    async def until_heard(self, enough: Callable[[Int16Array], bool]) -> None:
        """Wait until what has been heard is enough."""
        async with asyncio.timeout(CEILING_S):
            while not enough(self.heard()):
                self._heard_more.clear()
                await self._heard_more.wait()

    async def drop(self) -> None:
        """Give back the peer and the HTTP client."""
        await self._peer.close()
        await self.openai.close()

    # Turns and items. --------------------------------------------------------------------------------------------------------

    def send(self, kind: str, **fields: Any) -> None:
        self._channel.send(json.dumps({"type": kind, **fields}))

    def ask(self, text: str) -> None:
        """Write a turn, and ask for its reply."""
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        self.send("conversation.item.create", item=item)
        self.send("response.create")

    async def item_text(self, item_id: str) -> str:
        """Return an item's text as the server's history has it."""
        self.send("conversation.item.retrieve", item_id=item_id)
        retrieved = await self.until_that(
            lambda e: e["type"] == "conversation.item.retrieved" and e["item"]["id"] == item_id, "item"
        )
        return text_of(retrieved["item"])


def text_of(item: Event) -> str:
    """Return an item's text or transcript."""
    return "".join(part.get("transcript") or part.get("text") or "" for part in item["content"])


@asynccontextmanager
async def call(url: str, session: Event | None = None) -> AsyncIterator[Caller]:
    """Hold a call; it is hung up at the end."""
    caller = Caller(url)
    try:
        await caller.dial(session)
        async with asyncio.TaskGroup() as tasks:
            ears = tasks.create_task(caller.listen())
            yield caller
            await caller.openai.realtime.calls.hangup(caller.call_id)
            ears.cancel()
    finally:
        await caller.drop()
