"""OpenAI chat completions over HTTP, streamed: messages in, pieces of text and one end out.

    POST {url}/chat/completions ─► headers ─► data: {delta} … ─► finish_reason ─► usage ─► [DONE]
    └────────── first_text_timeout_s ───────────┘└─ silence_timeout_s each ─┘└─ _USAGE_WAIT_S ─┘

Ending the iteration early, by cancelling or closing it, closes the connection; a server that notices stops generating.
No error message holds the key, a prompt or a server's free text: only the status and the error's code, and the latter
only if it looks like one. Source: OpenAI API reference, "Create chat completion" and "Streaming".
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal

import aiohttp
from pydantic import BaseModel, ValidationError

from duplex.engines import EngineError
from duplex.engines.sse import SseReader

_USAGE_WAIT_S = 0.5
"""After the finish reason: how long the end waits for the tokens' count, which most servers send at once."""
_DRAIN_S = 0.05
"""After [DONE]: how long the response may take to end by itself, so that its connection can be used again."""
_ERROR_BODY_S = 1.0
_BODY_BYTES_MAX = 256 * 1024
"""Read of an error's body or of the list of models."""
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_DONE = "[DONE]"

ErrorKind = Literal["failed", "timeout", "refused", "unavailable"]


class ChatError(EngineError):
    """A request failed; `kind` says how, in the words of `duplex.payloads.StageError`."""

    def __init__(self, reason: str, kind: ErrorKind = "failed") -> None:
        super().__init__(reason)
        self.kind: ErrorKind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings:
    """One server and one of its models."""

    url: str
    """Base URL without a slash at its end, e.g. `http://127.0.0.1:8000/v1`."""
    model: str
    key: str | None = field(default=None, repr=False)
    key_header: str = "Authorization"
    """Header that carries the key: as `Bearer KEY` in Authorization, bare in any other."""
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    """Further members of the request."""
    tokens_field: str = "max_tokens"
    """Name of the member that bounds the reply."""
    ask_usage: bool = True
    connect_timeout_s: float
    first_text_timeout_s: float
    """From the request to the first text."""
    silence_timeout_s: float
    """Between two pieces of the stream, once there was text."""
    connections: int
    """Connections at once; a request waits for one within `connect_timeout_s`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatEnd:
    """How the server ended a reply."""

    finish: str
    """The server's word: `stop`, `length`, `tool_calls`, `content_filter`, …"""
    completion_tokens: int | None
    """Tokens generated, those of reasoning included; None where the server does not say."""
    prompt_tokens: int | None = None
    """Tokens of the prompt; None where the server does not say."""
    cached_tokens: int = 0
    """Of those, what the server had read before."""


class _Delta(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    index: int = 0
    delta: _Delta | None = None
    finish_reason: str | None = None


class _PromptDetails(BaseModel):
    cached_tokens: int | None = None


class _Usage(BaseModel):
    completion_tokens: int | None = None
    prompt_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None


class _Chunk(BaseModel):
    """One event. Reasoning and tool calls are among the members that are not read: they are not spoken."""

    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


class ReplyReader:
    """The bytes of one reply's stream → pieces of text, and how it ended. Pure."""

    def __init__(self) -> None:
        self._events = SseReader()
        self._usage: _Usage | None = None
        self.finish: str | None = None
        """The server's reason to finish, once it has told it."""
        self.spoke = False
        """There was text."""
        self.complete = False
        """Nothing more is to be read."""

    def feed(self, data: bytes) -> list[str]:
        """Take the next bytes, none at the stream's end, and return the pieces of text in them.

        Raises:
            ChatError: an event tells of an error or is no chat completion.
            EngineError: an event is too long.
        """
        texts: list[str] = []
        for event in self._events.feed(data):
            if event == _DONE:
                self.complete = True
                break
            texts += self._take(_parse(event))
        self.spoke = self.spoke or bool(texts)
        told_all = self.finish is not None and self._usage is not None and self._usage.completion_tokens is not None
        self.complete = self.complete or told_all or not data
        return texts

    def _take(self, chunk: _Chunk) -> list[str]:
        if chunk.usage is not None:
            self._usage = chunk.usage
        choice = next((choice for choice in chunk.choices if choice.index == 0), None)
        if choice is None:
            return []
        self.finish = choice.finish_reason or self.finish
        text = "" if choice.delta is None else (choice.delta.content or choice.delta.refusal)
        return [text] if text else []

    def end(self) -> ChatEnd:
        """Return how the reply ended.

        Raises:
            ChatError: the stream ended before the reply did.
        """
        if self.finish is None:
            raise ChatError("the server ended its reply without saying why")
        usage = self._usage or _Usage()
        details = usage.prompt_tokens_details or _PromptDetails()
        return ChatEnd(
            finish=self.finish,
            completion_tokens=usage.completion_tokens,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=details.cached_tokens or 0,
        )


class ChatClient:
    """A server's completions. Lives on the loop that `open` ran on."""

    def __init__(self, settings: ChatSettings) -> None:
        self._settings = settings
        self._http: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Make the pool of connections; nothing is sent yet."""
        settings = self._settings
        headers = {}
        if settings.key is not None:
            bearer = settings.key_header.lower() == "authorization"
            headers[settings.key_header] = f"Bearer {settings.key}" if bearer else settings.key
        self._http = aiohttp.ClientSession(
            headers=headers,
            connector=aiohttp.TCPConnector(limit=settings.connections),
            timeout=aiohttp.ClientTimeout(total=None, connect=settings.connect_timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def close(self) -> None:
        """Close all connections."""
        if self._http is not None:
            await self._http.close()

    async def models(self) -> tuple[str, ...] | None:
        """Return the names of the server's models, or None where it has no such list.

        Raises:
            ChatError: the server cannot be reached, or refuses the key.
        """
        assert self._http is not None, "opened before the first request"
        try:
            async with asyncio.timeout(self._settings.first_text_timeout_s):
                async with self._http.get(f"{self._settings.url}/models", allow_redirects=False) as response:
                    if response.status in (
                        HTTPStatus.NOT_FOUND,
                        HTTPStatus.METHOD_NOT_ALLOWED,
                        HTTPStatus.NOT_IMPLEMENTED,
                    ):
                        return None
                    if response.status != HTTPStatus.OK:
                        raise await self._refusal(response)
                    listed = json.loads(await response.content.read())
                    return tuple(str(model["id"]) for model in listed["data"])
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._lost(error, "sending its models") from error
        except (ValueError, KeyError, TypeError):
            return None  # a list of some other form tells nothing about the completions

    async def stream(
        self, messages: Sequence[Mapping[str, str]], tokens_max: int
    ) -> AsyncGenerator[str | ChatEnd, None]:
        """Ask for a reply; yields its text in pieces, then one ChatEnd.

        Args:
            messages: of `role` and `content`, oldest first.
            tokens_max: bound on the reply.
        Raises:
            ChatError: the server refused, failed, fell silent, went away, or sent what is no stream of completions.
        Cancel: closes the connection at once; what was not yielded is lost.
        """
        response: aiohttp.ClientResponse | None = None
        deadline = asyncio.get_running_loop().time() + self._settings.first_text_timeout_s
        try:
            async with asyncio.timeout_at(deadline):
                response = await self._post(self._body(messages, tokens_max))
                if response.status != HTTPStatus.OK:
                    raise await self._refusal(response)
            if response.content_type != "text/event-stream":
                raise ChatError(f"the server at {self._settings.url} does not stream its completions")
            reply = ReplyReader()
            while not reply.complete:
                for text in reply.feed(await _read(response, deadline, reply)):
                    yield text
                deadline = self._deadline(deadline, reply)
            await _drain(response)
            yield reply.end()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._lost(error, "its reply") from error
        finally:
            if response is not None:
                response.close()

    def _deadline(self, before: float, reply: ReplyReader) -> float:
        """Return until when the next bytes have to come."""
        now = asyncio.get_running_loop().time()
        if reply.finish is not None:
            return now + _USAGE_WAIT_S
        return now + self._settings.silence_timeout_s if reply.spoke else before

    async def _post(self, body: dict[str, Any]) -> aiohttp.ClientResponse:
        """Send the request; once more where a kept connection turns out to be closed before any answer."""
        assert self._http is not None, "opened before the first request"
        url = f"{self._settings.url}/chat/completions"
        try:
            return await self._http.post(url, json=body, allow_redirects=False)
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            return await self._http.post(url, json=body, allow_redirects=False)

    def _body(self, messages: Sequence[Mapping[str, str]], tokens_max: int) -> dict[str, Any]:
        settings = self._settings
        body: dict[str, Any] = {
            "model": settings.model,
            "messages": [dict(message) for message in messages],
            "stream": True,
            settings.tokens_field: tokens_max,
        }
        if settings.ask_usage:
            body["stream_options"] = {"include_usage": True}
        return body | dict(settings.extra_body)

    async def _refusal(self, response: aiohttp.ClientResponse) -> ChatError:
        """Return what a status other than 200 means."""
        status, settings = response.status, self._settings
        code = await _error_code(response)
        told = f"{status}, {code}" if code else str(status)
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            return ChatError(f"the server refuses the key, or there is none ({told})", "unavailable")
        if status == HTTPStatus.NOT_FOUND:
            return ChatError(
                f"the server has no model {settings.model}, or not at {settings.url} ({told})", "unavailable"
            )
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            return ChatError(f"the server limits the rate of requests or the quota is used up ({told})", "refused")
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return ChatError(f"the server failed ({told})", "unavailable")
        if status < HTTPStatus.BAD_REQUEST:
            return ChatError(f"the server answers {status} in place of a stream: is its URL right?", "unavailable")
        return ChatError(f"the server refuses the request ({told})", "refused")

    def _lost(self, error: aiohttp.ClientError | TimeoutError, what: str) -> ChatError:
        """Map what the connection did."""
        settings = self._settings
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return ChatError(f"no connection to {settings.url} within {settings.connect_timeout_s:g} s", "timeout")
        if isinstance(error, TimeoutError):
            return ChatError(f"the server was silent for too long in {what}", "timeout")
        if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientConnectorCertificateError):
            return ChatError(f"cannot connect to {settings.url} ({type(error).__name__})", "unavailable")
        return ChatError(f"the connection was lost in {what} ({type(error).__name__})")


def _parse(event: str) -> _Chunk:
    try:
        chunk = _Chunk.model_validate_json(event)
    except ValidationError as error:
        raise ChatError("the server sent an event that is no chat completion") from error
    if chunk.error is not None:
        code = _code_of({"error": chunk.error})
        raise ChatError(f"the server failed in the middle of its reply{f' ({code})' if code else ''}", "unavailable")
    return chunk


async def _read(response: aiohttp.ClientResponse, deadline: float, reply: ReplyReader) -> bytes:
    """Return the next bytes; none at the end, which once the finish reason is there may come in any way.

    Raises:
        aiohttp.ClientError, TimeoutError: the connection was lost, or nothing came in time, before the finish reason.
    """
    try:
        async with asyncio.timeout_at(deadline):
            return await response.content.readany()
    except (aiohttp.ClientError, TimeoutError):
        if reply.finish is None:
            raise
        return b""


async def _drain(response: aiohttp.ClientResponse) -> None:
    """Read what frames the end of the response, so that its connection can be used again; else it is closed."""
    try:
        async with asyncio.timeout(_DRAIN_S):
            await response.content.read()
    except (aiohttp.ClientError, TimeoutError):
        response.close()


async def _error_code(response: aiohttp.ClientResponse) -> str | None:
    """Return the code of an error's body, if it has one in time."""
    try:
        async with asyncio.timeout(_ERROR_BODY_S):
            body = await response.content.read(_BODY_BYTES_MAX)
        return _code_of(json.loads(body))
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return None  # the status says enough


def _code_of(body: Any) -> str | None:
    error = body.get("error") if isinstance(body, dict) else None
    named = [error.get("code"), error.get("type")] if isinstance(error, dict) else []
    return next((name for name in named if isinstance(name, str) and _CODE.fullmatch(name)), None)
