"""The pack's own options: `[model.options]` of the configuration."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from duplex.engines.openai_chat import ChatSettings
from duplex.stages.contract import PackError

_PACK = "openai_chat"
_OURS = frozenset({"model", "messages", "stream", "stream_options", "n", "tools", "tool_choice"})
_KEY = re.compile(r"[\x21-\x7e]+")
_KEY_BYTES_MAX = 16_384
SYSTEM_PROMPT = (
    "You are a helpful voice assistant. Your words are spoken: answer in one to three short sentences of plain text, "
    "without lists, markup or emoji."
)
"""Said to the model when the session gives no instructions of its own."""


class OpenAiChatOptions(BaseModel):
    """Settings of the pack `openai_chat`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = Field(max_length=2000)
    """Base URL of the server, up to `/v1`: `http://127.0.0.1:8000/v1`."""
    model: str = Field(min_length=1, max_length=500)
    """The model's name at that server."""
    key_env: str | None = Field(None, min_length=1)
    """Name of the environment variable that holds the key; with neither this nor `key_file` none is sent."""
    key_file: Path | None = None
    """File that holds the key and nothing else."""
    key_header: str = Field("Authorization", pattern=r"^[A-Za-z0-9-]{1,64}$")
    """Header that carries the key: as `Bearer KEY` in Authorization, bare in any other (`api-key`)."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further members of every request, e.g. `{ temperature = 0.6 }`."""
    tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """How the server names the bound on a reply: OpenAI's newer models know the second only."""
    ask_usage: bool = True
    """Ask for the count of tokens; off for a server that refuses `stream_options`."""
    tools: bool = True
    """The server's model calls functions; off: sessions with tools are refused."""
    check: bool = True
    """Ask for `/models` at the start, which stops it if the server is away, refuses the key, or has no such model."""
    parallel: int = Field(8, ge=1, le=1000)
    """Replies generated at once; more wait for their turn, the most urgent first."""
    sessions: int | None = Field(None, ge=1, le=1000)
    """Sessions admitted by default; unset takes what `local` carries, whose voice is the bound."""
    connect_timeout_s: float = Field(3.0, gt=0, le=60)
    first_text_timeout_s: float = Field(8.0, gt=0, le=600)
    """From the request to the first word. Thinking that is not spoken counts: turn it off, by `extra_body`. A stage
    without output for `stages.step_timeout_s` fails in any case."""
    silence_timeout_s: float = Field(5.0, gt=0, le=600)
    """Between two pieces of the reply."""
    reply_tokens_max: int = Field(300, ge=8, le=100_000)
    """Longest reply, when the session does not say."""
    history_tokens: int = Field(6000, ge=64, le=1_000_000)
    """Tokens of conversation (estimated, three bytes each) that are sent; past it the oldest turns are left out."""
    system_prompt: str = Field(SYSTEM_PROMPT, max_length=20_000)
    local: dict[str, Any] = Field(default_factory=dict)
    """Options of the pack `local`, which hears and speaks; those of its thinker have no effect."""

    @field_validator("url")
    @classmethod
    def _base_url(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must be http://HOST… or https://HOST…")
        if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
            raise ValueError("takes no user, password, query or fragment: give the key by key_env or key_file")
        if parts.path.rstrip("/").endswith("/chat/completions"):
            raise ValueError("must end before /chat/completions")
        return url.rstrip("/")

    @field_validator("extra_body")
    @classmethod
    def _not_ours(cls, body: dict[str, Any]) -> dict[str, Any]:
        if ours := sorted(_OURS & body.keys()):
            raise ValueError(f"may not hold {', '.join(ours)}")
        return body

    @model_validator(mode="after")
    def _one_key(self) -> OpenAiChatOptions:
        if self.key_env is not None and self.key_file is not None:
            raise ValueError("key_env and key_file: give one of them")
        return self

    def chat(self) -> ChatSettings:
        """Return the settings of the client, with the key.

        Raises:
            PackError: the key cannot be read or cannot be one.
        """
        return ChatSettings(
            url=self.url,
            model=self.model,
            key=self._key(),
            key_header=self.key_header,
            extra_body=self.extra_body,
            tokens_field=self.tokens_field,
            ask_usage=self.ask_usage,
            connect_timeout_s=self.connect_timeout_s,
            first_text_timeout_s=self.first_text_timeout_s,
            silence_timeout_s=self.silence_timeout_s,
            connections=self.parallel,
        )

    def _key(self) -> str | None:
        if self.key_env is not None:
            where, key = f"model.options.key_env: the environment variable {self.key_env}", os.environ.get(self.key_env)
            if key is None:
                raise PackError(f"{where} is not set")
        elif self.key_file is not None:
            where = f"model.options.key_file: {self.key_file}"
            try:
                with self.key_file.open("rb") as file:
                    key = file.read(_KEY_BYTES_MAX).decode("ascii", "replace")
            except OSError as error:
                raise PackError(f"{where} cannot be read: {error.strerror}") from error
        else:
            return None
        key = key.strip()
        if not _KEY.fullmatch(key):
            raise PackError(f"{where} is empty, or holds something that cannot be a key")
        return key


def parse(options: dict[str, Any]) -> OpenAiChatOptions:
    """Check options against the schema.

    Raises:
        PackError: an option is missing, unknown or out of range; the message names it and never shows its value.
    """
    try:
        return OpenAiChatOptions.model_validate(options)
    except ValidationError as error:
        lines = [f"{'.'.join(['model.options', *map(str, e['loc'])])}: {e['msg']}" for e in error.errors()]
        raise PackError(f"bad options of the model pack {_PACK}\n  " + "\n  ".join(lines)) from error
