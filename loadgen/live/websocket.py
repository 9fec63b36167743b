"""A talker's WebSocket session: what a stock client sends, and a player that runs behind what arrives.

tick (20 ms, one timer for all) ─► microphone ─► talker.say ─► input_audio_buffer.append (40 ms each)
delta ─► player ─► tick ─► talker.heard;  speech_started ─► the player is emptied, conversation.item.truncate
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
from typing import Any

import aiohttp
import numpy as np

from duplex.payloads import Int16Array
from duplex.units import NS_PER_S, MonoNs
from loadgen.live.call import Call, CallFailed, CallRefused, Lateness
from loadgen.live.clock import now_ns
from loadgen.live.impairment import StreamPath, outage
from loadgen.live.metronome import Metronome
from loadgen.live.options import Network
from loadgen.live.player import Player
from loadgen.live.rows import SessionRow
from loadgen.live.sound import level_of
from loadgen.live.speech import WEBSOCKET_RATE, Bank, Packet
from loadgen.live.talker import Talker
from loadgen.live.webrtc import CONNECT_S, retry_after

_PIECE = WEBSOCKET_RATE // 50
"""Samples of the grain in which what is heard is told: 20 ms."""
_APPEND_PACKETS = 2
_CLOSE_S = 3.0
_APPENDS_WAITING_MAX = 1500
"""One minute of appends: past it the server does not read, and the call is lost."""
_WITH_METRICS = '{"type": "session.update", "session": {"type": "realtime", "duplex": {"events": true}}}'
"""Over WebSocket the server tells its latency split only who asks."""


class WebSocketCall(Call):
    """One session; made by `dial`."""

    def __init__(
        self, *, socket: aiohttp.ClientWebSocketResponse[bool], talker: Talker, bank: Bank, metronome: Metronome, lateness: Lateness,
        network: Network, rng: random.Random,
    ) -> None:  # fmt: skip
        self._player = Player()
        super().__init__(talker, bank, metronome, lateness, self._player)
        self._socket = socket
        self._loop = asyncio.get_running_loop()
        self._append: list[str] = []
        down = outage(network, now_ns(), rng)
        self._paths = None if network.ideal else (StreamPath(network, down, rng), StreamPath(network, down, rng))
        self._outbox: asyncio.Queue[tuple[MonoNs, str]] = asyncio.Queue(maxsize=_APPENDS_WAITING_MAX)
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Open the microphone: the session is there."""
        self._tasks = [self._loop.create_task(self._read()), self._loop.create_task(self._write())]
        self._metronome.add(self)

    async def close(self) -> None:
        """Hang up. Cancel: the socket is closed."""
        self._metronome.remove(self)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._socket.close()
        except TimeoutError:
            return  # aiohttp drops the connection with its session

    def note(self, row: SessionRow) -> None:
        """Write down nothing: a stream loses nothing, and its samples are the sender's own."""

    # The clock. ---------------------------------------------------------------------------------------------------------

    def say(self, packet: Packet, number: int, now: MonoNs) -> None:
        """Send 20 ms of the microphone, two packets at a time."""
        self._append.append(packet.base64)
        if len(self._append) == _APPEND_PACKETS:
            # Base64 of 960 bytes has no padding, so that texts can be joined.
            self._send('{"type":"input_audio_buffer.append","audio":"' + "".join(self._append) + '"}', now)
            self._append.clear()

    def check(self, now: MonoNs) -> None:
        """Nothing else is due: TCP tells when a connection is lost."""

    def _send(self, text: str, now: MonoNs) -> None:
        leaves = now if self._paths is None else self._paths[0].arrival(now)
        try:
            self._outbox.put_nowait((leaves, text))
        except asyncio.QueueFull:
            self.lose("the server does not read")

    async def _write(self) -> None:
        """Send what waits, in order, each message at its time. Cancel: at any time."""
        while True:
            leaves, text = await self._outbox.get()
            await self._until(leaves)
            try:
                await self._socket.send_str(text)
            except (ConnectionError, RuntimeError) as error:
                self.lose(f"the connection broke: {error}")
                return

    async def _until(self, at: MonoNs) -> None:
        wait = at - now_ns()
        if wait > 0:
            await asyncio.sleep(wait / NS_PER_S)

    # What arrives. --------------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        """Take events in order, each when the network gives it. Cancel: at any time."""
        async for message in self._socket:
            if message.type is not aiohttp.WSMsgType.TEXT:
                break
            if self._paths is not None:
                await self._until(self._paths[1].arrival(now_ns()))
            self._take(json.loads(message.data), now_ns())
        self.lose(f"the server closed the connection ({self._socket.close_code})")

    def _take(self, event: dict[str, Any], now: MonoNs) -> None:
        kind = event["type"]
        if kind == "response.output_audio.delta":
            self._play(event, now)
            return
        if kind == "input_audio_buffer.speech_started":
            self._flush(now)
        elif kind == "error" and event["error"].get("code") == "server_busy":
            self.lose("server_busy")
        self._talker.event(event, now)

    def _play(self, event: dict[str, Any], now: MonoNs) -> None:
        pcm: Int16Array = np.frombuffer(base64.b64decode(event["delta"]), "<i2")
        answer = self._talker.tag_of(event["response_id"])
        for at in range(0, len(pcm), _PIECE):
            piece = pcm[at : at + _PIECE]
            length = len(piece) * NS_PER_S // WEBSOCKET_RATE
            self._player.arrive(event["item_id"], length, level_of(piece, WEBSOCKET_RATE), answer, now)

    def _flush(self, now: MonoNs) -> None:
        """Stop the player as stock clients do when the user speaks, and say how much was heard."""
        flushed = self._player.flush(now)
        if flushed is None:
            return
        self._talker.flushed(now)
        item, played_ms = flushed
        truncate = {
            "type": "conversation.item.truncate",
            "item_id": item,
            "content_index": 0,
            "audio_end_ms": played_ms,
        }
        self._send(json.dumps(truncate), now)


async def dial(
    http: aiohttp.ClientSession, url: str, *, talker: Talker, bank: Bank, metronome: Metronome, lateness: Lateness,
    network: Network, rng: random.Random,
) -> WebSocketCall:  # fmt: skip
    """Connect.

    Raises:
        CallRefused: the server takes no session.
        CallFailed: it cannot be reached.
    Cancel: gives everything back.
    """
    began = now_ns()
    try:
        async with asyncio.timeout(CONNECT_S):
            socket = await http.ws_connect(f"{url}/v1/realtime", compress=0, max_msg_size=0)
            await socket.send_str(_WITH_METRICS)
    except aiohttp.WSServerHandshakeError as error:
        header = error.headers.get("Retry-After") if error.headers is not None else None
        took = (now_ns() - began) / NS_PER_S
        raise CallRefused(error.status, error.message, took, retry_after(header)) from error
    except (aiohttp.ClientError, TimeoutError) as error:
        raise CallFailed(f"cannot reach the server: {error or 'no answer in time'}") from error
    call = WebSocketCall(
        socket=socket, talker=talker, bank=bank, metronome=metronome, lateness=lateness, network=network, rng=rng
    )
    call.begin()
    return call
