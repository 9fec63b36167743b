"""Bad input, the list of it, each against the real server on a WebSocket, a data channel and a side channel.

An event that cannot be taken is one error to its sender, and the next good one is answered. Where the three ways differ the test
says so. What needs no socket is shown at more moments in tests/sim/test_client_errors.py and test_protocol_cases.py, what is
without measure in test_bounds.py, what arrives under the data channel in tests/media/test_media_channel.py.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
import pytest_asyncio
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType, WSServerHandshakeError
from fake_host import FakeHost, served
from live_server import live
from structlog.testing import capture_logs
from test_live_call import Caller, gone

from duplex.server import app
from duplex.telemetry import Observer
from duplex.telemetry.setup import ProcessClock
from duplex.units import MonoNs, ns_from_seconds

pytestmark = [pytest.mark.protocol, pytest.mark.asyncio(loop_scope="module")]
Event = dict[str, Any]
WayName = Literal["websocket", "data channel", "side channel"]
WAYS: tuple[WayName, ...] = ("websocket", "data channel", "side channel")
ROUTE = "/v1/realtime"
CALLS = "/v1/realtime/calls"
KEY = "key-0123456789abcdef"
PUSH_TO_TALK = {"type": "realtime", "audio": {"input": {"turn_detection": None}}}
ANSWER_S_MAX = 5.0
"""Generous: an answer within this is one that did not wait for anything else."""
EVENT_MIB_MAX = 16


@dataclass
class Way:
    """One client's connection for events."""

    send: Callable[[str | bytes], Awaitable[None]]
    receive: Callable[[], Awaitable[Event]]
    seen: list[Event] = field(default_factory=list)

    async def event(self, kind: str, **fields: Any) -> None:
        await self.send(json.dumps({"type": kind, **fields}))

    async def until(self, kind: str, **fields: Any) -> list[Event]:
        """Receive events up to the first of a type with these fields."""
        start = len(self.seen)
        while True:
            event = await self.receive()
            self.seen.append(event)
            if event["type"] == kind and fields.items() <= event.items():
                return self.seen[start:]

    async def still_good(self) -> list[Event]:
        """Send a good event and return what came before its answer."""
        wish = f"Be brief, for the {len(self.seen)}th time."
        await self.event("session.update", session={"instructions": wish})
        seen = await self.until("session.updated")
        assert seen[-1]["session"]["instructions"] == wish
        return seen[:-1]


def way_of(socket: ClientWebSocketResponse) -> Way:
    async def send(raw: str | bytes) -> None:
        await (socket.send_bytes(raw) if isinstance(raw, bytes) else socket.send_str(raw))

    return Way(send=send, receive=socket.receive_json)


@asynccontextmanager
async def by_socket(url: str, **session: Any) -> AsyncIterator[Way]:
    async with ClientSession(url) as client, client.ws_connect(ROUTE, max_msg_size=0) as socket:
        way = way_of(socket)
        await way.until("conversation.created")
        if session:
            await way.event("session.update", session=session)
            await way.until("session.updated")
        yield way


@asynccontextmanager
async def by_call(url: str) -> AsyncIterator[tuple[Way, str]]:
    """A call's data channel, and the call's id."""
    caller = Caller()
    caller.events = asyncio.Queue(maxsize=10_000)  # a thousand answers come while nobody takes them
    async with ClientSession(url) as client:
        headers = {"Content-Type": "application/sdp"}
        async with client.post(CALLS, data=await caller.offer(), headers=headers) as created:
            await caller.connect(await created.text())
            call_id = created.headers["Location"].rsplit("/", 1)[1]

    async def send(raw: str | bytes) -> None:
        caller.channel.send(raw)

    way = Way(send=send, receive=caller.events.get)
    await way.until("conversation.created")
    try:
        yield way, call_id
    finally:
        await caller.peer.close()


@asynccontextmanager
async def by_side(url: str) -> AsyncIterator[tuple[Way, Way]]:
    """A side channel, and the data channel of its call."""
    async with by_call(url) as (call, call_id), ClientSession(url) as client:
        async with client.ws_connect(ROUTE, params={"call_id": call_id}, max_msg_size=0) as socket:
            side = way_of(socket)
            await side.until("conversation.created")
            yield side, call


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """The server of this module, and a client of each way."""

    url: str
    observer: Observer
    ways: dict[WayName, Way]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stand() -> AsyncIterator[Stand]:
    patient = {"websocket_ping_s": 120}  # a socket answers no ping while its turn has not come
    open_door = {"measured": False}  # these tests make the loop busy, and open further sessions all the same
    serving = live("word " * 40, server=patient, admission=open_door)
    async with serving as (url, observer), by_socket(url, **PUSH_TO_TALK) as socket:
        async with by_call(url) as (call, _), by_side(url) as (side, _):
            for way in (call, side):
                await way.event("session.update", session=PUSH_TO_TALK)
                await way.until("session.updated")
            ways: dict[WayName, Way] = {"websocket": socket, "data channel": call, "side channel": side}
            yield Stand(url=url, observer=observer, ways=ways)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, stand: Stand) -> Way:
    return stand.ways[request.param]


# One event. ----------------------------------------------------------------------------------------------------------

MALFORMED: dict[str, tuple[str | bytes, str, str | None]] = {
    "cut short": ('{"type":"response.create"', "invalid_json", None),
    "an array": ("[]", "invalid_type", None),
    "a string": ('"x"', "invalid_type", None),
    "empty": ("", "invalid_json", None),
    "a repeated key": ('{"type":"response.cancel","type":"response.cancel"}', "duplicate_key", None),
    "not a number": ('{"type":"response.cancel","n":NaN}', "invalid_json", None),
    "nested too deep": ('{"type":"x","a":' + '{"a":' * 200 + "1" + "}" * 200 + "}", "nesting_too_deep", None),
    "binary": (b'{"type":"response.cancel"}', "binary_event", None),
    "binary, and no text": (b"\xff\xfe", "invalid_utf8", None),
    "no type": ("{}", "missing_required_parameter", "type"),
    "an unknown type": ('{"type":"no.such"}', "unknown_event_type", "type"),
    "a number for a type": ('{"type":5}', "invalid_type", "type"),
    "a number for an id": ('{"type":"response.cancel","response_id":5}', "invalid_type", "response_id"),
    "a string for an object": ('{"type":"session.update","session":"x"}', "invalid_type", "session"),
    "an unknown choice": ('{"type":"session.update","session":{"type":"weird"}}', "invalid_value", "session.type"),
    "a fraction of a millisecond": (
        '{"type":"conversation.item.truncate","item_id":"i","content_index":0,"audio_end_ms":1.5}',
        "invalid_type",
        "audio_end_ms",
    ),
    "a huge number": (
        '{"type":"conversation.item.truncate","item_id":"i","content_index":0,"audio_end_ms":' + "9" * 50 + "}",
        "invalid_value",
        "audio_end_ms",
    ),
}


async def refused(way: Way, raw: str | bytes, code: str, param: str | None, event_id: str | None) -> None:
    """Send what cannot be taken: it is one error, and a good event behind it is answered."""
    await way.send(raw)
    (error,) = [event for event in await way.still_good() if event["type"] == "error"]
    wrong = error["error"]
    assert (wrong["type"], wrong["code"], wrong["param"]) == ("invalid_request_error", code, param)
    assert wrong["event_id"] == event_id
    assert wrong["message"]


@pytest.mark.parametrize("case", MALFORMED)
async def test_c40_what_is_malformed_is_one_error(way: Way, case: str) -> None:
    """With and without an `event_id`, which the error names wherever it can be read."""
    raw, code, param = MALFORMED[case]
    await refused(way, raw, code, param, None)
    if isinstance(raw, str) and raw.startswith("{"):
        named = '{"event_id":"mine"' + ("," if raw != "{}" else "") + raw[1:]
        await refused(way, named, code, param, "mine")


async def test_an_unknown_field_is_ignored_and_counted(way: Way, stand: Stand) -> None:
    before = stand.observer.value("duplex_unknown_fields_total", event="session.update")
    await way.event("session.update", shiny=True, session={"instructions": "Shine.", "shiny": {"a": [1]}})
    seen = await way.until("session.updated")
    assert "error" not in [event["type"] for event in seen]
    assert seen[-1]["session"]["instructions"] == "Shine."
    assert stand.observer.value("duplex_unknown_fields_total", event="session.update") == before + 2


BAD_AUDIO = {
    "base64 of an odd length": "AAA",
    "padding in the middle": "AA==AA==",
    "letters that are not base64's": "A*A=",
    "half a sample": base64.b64encode(bytes(961)).decode(),
    "nothing": "",
}


@pytest.mark.parametrize("case", BAD_AUDIO)
async def test_bad_audio_is_one_error(way: Way, stand: Stand, case: str) -> None:
    """Audio comes on a WebSocket only; a call sends it as RTP, and is told so."""
    append = {"type": "input_audio_buffer.append", "audio": BAD_AUDIO[case], "event_id": "mine"}
    on_socket = way is stand.ways["websocket"]
    code, param = ("invalid_audio", "audio") if on_socket else ("unsupported_on_transport", "type")
    await refused(way, json.dumps(append), code, param, "mine")
    await refused(way, json.dumps(append | {"audio": 7}), *(("invalid_type", "audio", "mine")))


async def test_a_commit_of_nothing_is_one_error(way: Way) -> None:
    """A call's microphone is always on: there the buffer is empty only behind a clear, and the error comes when it was analysed."""
    way.seen.clear()
    await way.event("input_audio_buffer.clear")
    await way.event("input_audio_buffer.commit", event_id="mine")
    wrong = (await way.until("error"))[-1]["error"]
    assert (wrong["code"], wrong["event_id"]) == ("input_audio_buffer_commit_empty", "mine")
    assert not [event for event in await way.still_good() if event["type"] == "error"]
    assert "input_audio_buffer.committed" not in [event["type"] for event in way.seen]


@pytest.mark.parametrize("fields", [{}, {"response_id": "resp_of_another"}])
async def test_a_cancel_with_nothing_to_cancel_is_one_error(way: Way, fields: Event) -> None:
    cancel = json.dumps({"type": "response.cancel", "event_id": "mine", **fields})
    await refused(way, cancel, "response_cancel_not_active", None, "mine")


async def test_a_create_while_one_is_active_is_one_error_and_the_first_goes_on(way: Way) -> None:
    for name in ("e1", "e2"):
        await way.event("response.create", event_id=name)
    seen = await way.until("error")
    (created,) = [event["response"]["id"] for event in seen if event["type"] == "response.created"]
    wrong = seen[-1]["error"]
    assert (wrong["code"], wrong["event_id"]) == ("conversation_already_has_active_response", "e2")
    assert created in wrong["message"]
    spoken = "response.output_audio_transcript.delta"
    if spoken not in [event["type"] for event in seen]:
        await way.until(spoken, response_id=created)
    await way.event("response.cancel", response_id=created)
    (done,) = [event for event in await way.until("response.done") if event["type"] == "response.done"]
    assert (done["response"]["id"], done["response"]["status"]) == (created, "cancelled")
    assert not [event for event in await way.still_good() if event["type"] == "error"]


async def item_of(way: Way) -> str:
    content = [{"type": "input_text", "text": "Mine."}]
    await way.event("conversation.item.create", item={"type": "message", "role": "user", "content": content})
    name: str = (await way.until("conversation.item.done"))[-1]["item"]["id"]
    return name


async def test_items_of_another_session_are_unknown(way: Way, stand: Stand) -> None:
    async with by_socket(stand.url) as other:
        theirs = await item_of(other)
        for kind, more in (("truncate", {"content_index": 0, "audio_end_ms": 0}), ("retrieve", {}), ("delete", {})):
            event = {"type": f"conversation.item.{kind}", "item_id": theirs, "event_id": "mine"} | more
            await refused(way, json.dumps(event), f"item_{kind}_invalid_item_id", "item_id", "mine")
        await other.event("conversation.item.retrieve", item_id=theirs)
        assert (await other.until("conversation.item.retrieved"))[-1]["item"]["content"][0]["text"] == "Mine."


async def test_the_users_own_item_is_not_truncated(way: Way) -> None:
    own = await item_of(way)
    event = {"type": "conversation.item.truncate", "item_id": own, "content_index": 0, "audio_end_ms": 0}
    await refused(way, json.dumps(event), "invalid_truncate", "item_id", None)


# Much of it. ---------------------------------------------------------------------------------------------------------


async def test_a_thousand_events_in_a_second_are_answered_in_order_and_nobody_waits(way: Way, stand: Stand) -> None:
    """A third of them good, a third refused, a third unreadable; another session is served in between."""
    async with by_socket(stand.url) as other:
        item = await item_of(way)
        events = [
            json.dumps({"type": "conversation.item.retrieve", "item_id": item}),
            json.dumps({"type": "response.cancel"}),
            "{",
        ]
        for number in range(1000):
            await way.send(events[number % 3])
        began = time.perf_counter()
        assert await other.still_good() == []
        assert time.perf_counter() - began < ANSWER_S_MAX
        answers = [event["type"] for event in await way.still_good()]
    asked = ("conversation.item.retrieved", "error", "error")
    assert [kind for kind in answers if kind in asked] == [asked[number % 3] for number in range(1000)]


async def closed(socket: ClientWebSocketResponse) -> int | None:
    """Receive to the end; return the code it was closed with."""
    while (await socket.receive()).type in (WSMsgType.TEXT, WSMsgType.BINARY):
        continue
    return socket.close_code


@pytest.mark.parametrize("name", ["websocket", "side channel"])
async def test_an_event_of_sixteen_mib_is_the_largest_and_one_byte_more_closes(name: WayName, stand: Stand) -> None:
    """On a data channel the client's own stack refuses it: tests/media/test_media_channel.py."""
    head = '{"type":"conversation.item.retrieve","event_id":"mine","item_id":"'
    largest = head + "x" * (EVENT_MIB_MAX * 2**20 - len(head) - 2) + '"}'
    async with by_call(stand.url) as (call, call_id), ClientSession(stand.url) as client:
        params = {} if name == "websocket" else {"call_id": call_id}
        async with client.ws_connect(ROUTE, params=params, max_msg_size=0) as socket:
            way = way_of(socket)
            await way.until("conversation.created")
            await refused(way, largest, "string_above_max_length", "item_id", "mine")
            try:
                await way.send(largest + " ")
            except ConnectionError:
                pass  # the server does not read to the end of it
            assert await closed(socket) in (1009, 1006)
        assert not [event for event in await call.still_good() if event["type"] == "error"], "the call goes on"


@pytest.mark.parametrize("name", ["websocket", "side channel"])
async def test_a_client_that_reads_nothing_is_closed_with_a_reason(name: WayName) -> None:
    """It sends what is answered to itself alone and takes no answer; the call beside a side channel goes on."""
    server = {"outbox_bytes_max": 100_000, "close_timeout_s": 0.2}
    async with live(server=server) as (url, observer), ClientSession(url) as client, by_call(url) as (call, call_id):
        params = {} if name == "websocket" else {"call_id": call_id}
        with capture_logs() as logs:
            async with client.ws_connect(ROUTE, params=params) as socket:
                ended = asyncio.Event()
                asking = asyncio.ensure_future(ask_without_reading(socket, ended))
                while not [line for line in logs if line["event"] == "websocket_closed"]:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                ended.set()
                await asking
        (line,) = [line for line in logs if line["event"] == "websocket_closed"]
        assert line["reason"] == "outbox_overflow"
        assert not [event for event in await call.still_good() if event["type"] == "error"]
        assert observer.value("duplex_sessions") == 1, "the call alone"


async def ask_without_reading(socket: ClientWebSocketResponse, ended: asyncio.Event) -> None:
    """Send until the connection breaks; the client's own stack holds back what it has no room for."""
    assert socket._response.connection is not None and socket._response.connection.transport is not None
    socket._response.connection.transport.pause_reading()  # type: ignore[attr-defined]
    unknown = json.dumps({"type": "no.such", "event_id": "e" * 512})
    try:
        while not ended.is_set():
            await socket.send_str(unknown)
    except ConnectionError:
        pass  # cut


# Secrets. ------------------------------------------------------------------------------------------------------------


class LateClock(ProcessClock):
    """A clock that can be put forward."""

    ahead_s = 0.0

    def unix_ns(self, at: MonoNs) -> int:
        return super().unix_ns(at) + ns_from_seconds(self.ahead_s)


async def opened(client: ClientSession, secret: str, way: str) -> int:
    """Try to open a session with a secret; return the status."""
    headers = {"Authorization": f"Bearer {secret}"}
    if way == "data channel":
        async with client.post(CALLS, data="v=0\r\n", headers=headers | {"Content-Type": "application/sdp"}) as answer:
            return answer.status
    named: dict[str, Any] = {"protocols": ("realtime", f"openai-insecure-api-key.{secret}")}
    try:
        async with client.ws_connect(ROUTE, **(named if way == "subprotocol" else {"headers": headers})):
            return 101
    except WSServerHandshakeError as error:
        return error.status


@pytest.mark.parametrize("way_in", ["websocket", "subprotocol", "data channel"])
async def test_a_secret_that_has_expired_or_was_forged_opens_nothing(
    way_in: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is reusable until it expires; side channels take no secret at all (test_live_side_channel.py)."""
    clock = LateClock()
    monkeypatch.setattr(app, "ProcessClock", lambda: clock)
    host = FakeHost()
    async with served(host, api_keys={"app": KEY}) as client:
        body = {"expires_after": {"anchor": "created_at", "seconds": 30}}
        headers = {"Authorization": f"Bearer {KEY}"}
        async with client.post("/v1/realtime/client_secrets", json=body, headers=headers) as made:
            secret = (await made.json())["value"]
        good = 201 if way_in == "data channel" else 101
        assert [await opened(client, secret, way_in) for _ in range(2)] == [good, good]
        last = "A" if secret[-1] != "A" else "B"
        forged = (secret[:-1] + last, secret[:-1], secret + "A", secret.upper(), "ek_", "ek_" + "A" * 43)
        assert {await opened(client, each, way_in) for each in forged} == {401}
        clock.ahead_s = 29.0
        assert await opened(client, secret, way_in) == good
        clock.ahead_s = 31.0
        assert await opened(client, secret, way_in) == 401
    assert len(host.websockets) + len(host.offers) == 3


async def test_nothing_is_left_when_they_have_gone() -> None:
    async with live() as (url, observer):
        async with by_socket(url) as socket, by_side(url) as (side, call):
            for way in (socket, side, call):
                await way.send("{")
                await way.until("error")
        await gone(observer)
