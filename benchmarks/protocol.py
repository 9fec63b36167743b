"""What does the protocol cost? Events per second and core through a WebSocket, and µs that it adds to a delta of audio.

    python -m benchmarks.protocol            about a minute

The server runs in this process with `sim`, on a thread and a loop of its own, and only the CPU time of that thread counts:
reading the socket, decoding, the core, encoding, and writing. Its clients, on the other thread, are not counted, and neither
are the stages' threads. The machine's other load does not show in CPU time, save for colder caches.

Each client sends a batch and reads all its answers before the next one. The kinds: `retrieve` (one event in, one item out),
`create and delete` (two in, three out), `update` (one in, the whole session out), `refused` (one in, one error out), and `append`
(20 ms of audio in; besides the core, the resampler and the handing over of each window to the VAD; nothing out).

The deltas are timed one by one on this thread: core event → numbered wire event, kept in the ring → JSON text.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import uvloop
from aiohttp import ClientSession, ClientWebSocketResponse
from duplex_models.sim import create

from benchmarks.report import quantiles, write
from duplex.actor.host import SessionHost
from duplex.config import AdmissionSettings, ModelSettings, ServerSettings, Settings
from duplex.protocol import WireEncoder, to_json
from duplex.server.serve import listening
from duplex.session.events import ItemView, ReplyAudio, ReplyCreated, ReplyOutputStarted, ReplyView
from duplex.telemetry import Observer, configure_logging

SESSIONS = (1, 100)
EVENTS = 40_000
"""Of each kind, over all sessions."""
BATCH = 100
"""Events in flight at a time in one session."""
DELTAS = 20_000
DELTA_MS = (20, 200)
RATE = 24_000


class ServerThread:
    """The server on a thread of its own.

    Args:
        settings: what it runs with.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self.url = ""

    async def _serve(self) -> None:
        observer = Observer()
        host = SessionHost(self._settings, create(dict(self._settings.model.options), 1), observer.record)
        async with listening(host, self._settings.server, observer) as self.url:
            await host.start(lambda line: None)
            self._ready.set()
            await self._stop.wait()

    def cpu_s(self) -> float:
        """Return the CPU time of the server's thread so far."""
        return asyncio.run_coroutine_threadsafe(_thread_time(), self._loop).result()

    def __enter__(self) -> ServerThread:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *raised: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()


async def _thread_time() -> float:
    return time.thread_time()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of work."""

    events: tuple[str, ...]
    """Sent one after the other, over again."""
    answers: int
    """Events that come back for one round of them."""


def kinds() -> dict[str, Kind]:
    """Return what is measured."""
    item = {
        "type": "message",
        "role": "user",
        "id": "again",
        "content": [{"type": "input_text", "text": "Hello there."}],
    }
    tone = (8000 * np.sin(np.arange(RATE // 50) / 10)).astype("<i2")
    quiet = base64.b64encode((tone // 1000).tobytes()).decode()
    made: dict[str, tuple[list[dict[str, Any]], int]] = {
        "retrieve": ([{"type": "conversation.item.retrieve", "item_id": "kept"}], 1),
        "create and delete": (
            [{"type": "conversation.item.create", "item": item}, {"type": "conversation.item.delete", "item_id": "again"}],
            3,
        ),
        "update": ([{"type": "session.update", "session": {"instructions": "Be brief."}}], 1),
        "refused": ([{"type": "response.cancel", "event_id": "mine"}], 1),
        "append": ([{"type": "input_audio_buffer.append", "audio": quiet}], 0),
    }  # fmt: skip
    return {name: Kind(events=tuple(map(json.dumps, sent)), answers=back) for name, (sent, back) in made.items()}


@asynccontextmanager
async def sockets(url: str, n: int) -> AsyncIterator[list[ClientWebSocketResponse]]:
    """Open sessions in push to talk, each with an item to be retrieved."""
    item = {
        "type": "message",
        "role": "user",
        "id": "kept",
        "content": [{"type": "input_text", "text": "Hello there."}],
    }
    session = {"type": "realtime", "audio": {"input": {"turn_detection": None}}}
    async with ClientSession(url) as client:
        opened = [await client.ws_connect("/v1/realtime", max_msg_size=0) for _ in range(n)]
        for socket in opened:
            await socket.send_json({"type": "session.update", "session": session})
            await socket.send_json({"type": "conversation.item.create", "item": item})
            await until(socket, "conversation.item.done")
        yield opened
        await asyncio.gather(*(socket.close() for socket in opened))


async def until(socket: ClientWebSocketResponse, kind: str) -> None:
    """Read up to an event of a type."""
    while (await socket.receive_json())["type"] != kind:
        continue


async def work(socket: ClientWebSocketResponse, kind: Kind, batches: int) -> None:
    """Send batches of a kind; returns when all is answered."""
    rounds = BATCH // len(kind.events)
    for _ in range(batches):
        for event in kind.events * rounds:
            await socket.send_str(event)
        for _ in range(kind.answers * rounds):
            await socket.receive()
        if not kind.answers:  # the next one is answered when those before it were taken
            await socket.send_str('{"type":"conversation.item.retrieve","item_id":"kept"}')
            await until(socket, "conversation.item.retrieved")


async def together(opened: list[ClientWebSocketResponse], kind: Kind, batches: int) -> None:
    """Have all sessions work at once."""
    await asyncio.gather(*(work(socket, kind, batches) for socket in opened))


async def throughput(server: ServerThread, events: int) -> dict[str, Any]:
    """Return events a second and core, by kind and number of sessions."""
    found: dict[str, Any] = {}
    for n in SESSIONS:
        async with sockets(server.url, n) as opened:
            for name, kind in kinds().items():
                batches = max(events // BATCH // n, 1)
                await together(opened, kind, 1)  # warm
                cpu_s, wall_s = await _cpu(server), time.perf_counter()
                await together(opened, kind, batches)
                cpu_s, wall_s = await _cpu(server) - cpu_s, time.perf_counter() - wall_s
                taken = n * batches * BATCH
                found.setdefault(name, {})[str(n)] = {
                    "events": taken,
                    "events_per_s_and_core": round(taken / cpu_s),
                    "us_per_event": round(cpu_s / taken * 1e6, 1),
                    "events_per_s_on_the_clock": round(taken / wall_s),
                }
    return found


async def _cpu(server: ServerThread) -> float:
    return await asyncio.to_thread(server.cpu_s)


def delta_cost(ms: int, deltas: int) -> dict[str, float]:
    """Return the µs from a core event with so much audio to its JSON text, with a ring that is full."""
    kept = Settings().conversation
    encoder = WireEncoder(
        session_id="sess_0123456789", conversation_id="conv_0", transport="websocket", ring_events_max=kept.event_ring_max,
        ring_bytes_max=kept.event_ring_bytes_max, ring_audio_bytes_max=kept.event_ring_audio_bytes_max,
    )  # fmt: skip
    item = ItemView(id="item_0", role="assistant", modality="audio", text="", status="in_progress")
    reply = ReplyView(id="resp_0", item=item, status="in_progress")
    encoder.encode(ReplyCreated(reply=reply))
    encoder.encode(ReplyOutputStarted(reply=reply, previous_item_id=None))
    pcm = np.random.default_rng(0).integers(-8000, 8000, RATE * ms // 1000).astype(np.int16)
    event = ReplyAudio(reply_id=reply.id, item_id=item.id, pcm=pcm)
    spent: list[int] = []
    for _ in range(deltas):
        began = time.perf_counter_ns()
        (wire,) = encoder.encode(event)
        to_json(wire)
        spent.append(time.perf_counter_ns() - began)
    return quantiles(spent[kept.event_ring_max :], 1e-3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--deltas", type=int, default=DELTAS)
    chosen = parser.parse_args()
    settings = Settings(
        server=ServerSettings(port=0, sessions_max=max(SESSIONS) + 1), log_level="error",
        model=ModelSettings(pack="sim", options={"vad": "level"}),
        admission=AdmissionSettings(measured=False),  # a hundred sessions behind one that fills the core
    )  # fmt: skip
    configure_logging(settings.log_level)
    deltas = {str(ms): delta_cost(ms, chosen.deltas) for ms in DELTA_MS}
    with ServerThread(settings) as server:
        events = uvloop.run(throughput(server, chosen.events))
    write("protocol", {"events": events, "delta_us_by_ms_of_audio": deltas, "load_average": os.getloadavg()})


if __name__ == "__main__":
    main()
