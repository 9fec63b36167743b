"""Write docs/protocol.md and web_client/sdk/events.gen.ts from the models of the wire in duplex/protocol/.

python docs/protocol.py          writes both
"""

from __future__ import annotations

import re
from pathlib import Path

from wire_types import TRANSPORTS, Definition, Field, Vocabulary, read_vocabulary, typescript

from duplex.protocol.error_codes import ERROR_CODES

PAGE = Path(__file__).with_suffix(".md")
TYPES = Path(__file__).parent.parent / "web_client" / "sdk" / "events.gen.ts"
NEVER_SENT = {
    "conversation.item.created": "superseded by `conversation.item.added`",
    "conversation.item.input_audio_transcription.segment": "the model does not tell speakers apart",
    "input_audio_buffer.dtmf_event_received": "SIP only",
    "mcp_list_tools.in_progress": "MCP is not supported",
    "mcp_list_tools.completed": "MCP is not supported",
    "mcp_list_tools.failed": "MCP is not supported",
    "response.mcp_call_arguments.delta": "MCP is not supported",
    "response.mcp_call_arguments.done": "MCP is not supported",
    "response.mcp_call.in_progress": "MCP is not supported",
    "response.mcp_call.completed": "MCP is not supported",
    "response.mcp_call.failed": "MCP is not supported",
}
"""Events of the OpenAI Realtime API that clients of this server never see, and why."""
LIFECYCLES = {
    "A session begins": """\
session.created
conversation.created
duplex.session.token                                       only with duplex.resume""",
    "A spoken turn and its answer": """\
input_audio_buffer.speech_started
conversation.item.input_audio_transcription.delta …        while the user speaks
input_audio_buffer.speech_stopped
input_audio_buffer.committed
conversation.item.added, conversation.item.done            the user's item
conversation.item.input_audio_transcription.delta          the rest of the words
conversation.item.input_audio_transcription.completed      any time from here on
response.created
rate_limits.updated
response.output_item.added
conversation.item.added                                    the assistant's item, empty
response.content_part.added
output_audio_buffer.started                                WebRTC
duplex.metrics                                             when the first sound has left
response.output_audio_transcript.delta …
response.output_audio.delta …                              WebSocket
response.output_audio.done
response.output_audio_transcript.done
response.content_part.done
response.output_item.done
conversation.item.done
response.done
output_audio_buffer.stopped                                WebRTC, when all has been played""",
    "A typed turn": """\
> conversation.item.create
conversation.item.added, conversation.item.done
> response.create
response.created …                                         as above""",
    "An answer in text": """\
response.created
rate_limits.updated
response.output_item.added
conversation.item.added
response.content_part.added
response.output_text.delta …
response.output_text.done
response.content_part.done
response.output_item.done
conversation.item.done
response.done""",
    "The user interrupts": """\
input_audio_buffer.speech_started                          at the confirmation, with an earlier audio_start_ms
output_audio_buffer.cleared                                WebRTC
response.output_audio.done … response.output_item.done     of what was open
conversation.item.done                                     status incomplete; WebRTC: cut to what was heard
response.done                                              status cancelled, reason turn_detected
conversation.item.truncated                                WebRTC
> conversation.item.truncate                               WebSocket: only the client knows what it has played
conversation.item.truncated                                WebSocket""",
    "The client interrupts": """\
> response.cancel
output_audio_buffer.cleared                                WebRTC
response.output_audio.done … conversation.item.done        of what was open
response.done                                              status cancelled, reason client_cancelled
conversation.item.truncated                                WebRTC
> output_audio_buffer.clear                                WebRTC: nothing is left to clear; alone it does the same""",
    "The model calls a function": """\
response.created
rate_limits.updated
response.output_item.added                                 a function_call
conversation.item.added
response.function_call_arguments.delta …
response.function_call_arguments.done
response.output_item.done
conversation.item.done
response.done                                              status completed, the call in its output
> conversation.item.create                                 a function_call_output with the call_id
conversation.item.added, conversation.item.done
> response.create""",
    "A response beside the conversation": """\
> response.create                                          conversation none
response.created                                           conversation_id null; others may be in progress
rate_limits.updated
response.output_item.added
response.content_part.added
response.output_text.delta …
response.output_text.done
response.content_part.done
response.output_item.done
response.done""",
    "Nobody speaks": """\
input_audio_buffer.timeout_triggered                       idle_timeout_ms after all has been played
input_audio_buffer.committed
conversation.item.added, conversation.item.done            the user's item, empty
conversation.item.input_audio_transcription.completed      empty
response.created …                                         as above""",
    "Push to talk": """\
> input_audio_buffer.append …                              WebSocket
> input_audio_buffer.commit
input_audio_buffer.committed                               once all that was appended is analysed
conversation.item.added, conversation.item.done            the user's item
> response.create                                          may follow the commit at once: response.created then comes
response.created, rate_limits.updated                      before committed, and the output behind the transcript
conversation.item.input_audio_transcription.delta          the rest of the words
conversation.item.input_audio_transcription.completed
response.output_item.added …                               as above""",
    "A session of type transcription": """\
input_audio_buffer.speech_started
conversation.item.input_audio_transcription.delta …        while the user speaks
input_audio_buffer.speech_stopped
input_audio_buffer.committed
conversation.item.added, conversation.item.done            the user's item
conversation.item.input_audio_transcription.delta          the rest of the words
conversation.item.input_audio_transcription.completed""",
    "A client comes back, and says what it saw last": """\
response.output_text.delta …                               what it missed, such as the end of a response: as it was,
response.done                                              with the ids it had
conversation.item.truncated …                              (WebSocket) of what it missed the audio is not sent again
duplex.session.resumed                                     what follows is new
duplex.session.token                                       the next one""",
    "A client comes back, and does not say it, or missed more than is kept": """\
session.created                                            the same id
conversation.created
duplex.session.resumed                                     replayed is null
conversation.item.added, conversation.item.done …          of each item, with duplex.restored
duplex.session.token                                       the next one""",
}
"""Events in their order. `>` is the client's, `…` means more of the same."""
_HEAD = """\
# The protocol

The OpenAI Realtime API in its GA shape, as unmodified clients speak it. What it has no word for begins with `duplex.`; a client
that neither sends nor reads such things works in full. On WebSocket those that only tell something come to clients that ask for them
(`duplex.events`, [sessions.md](sessions.md)).

Models of every event are in `duplex/protocol/`; this page and the types of the web SDK (`web_client/sdk/events.gen.ts`) are made
from them by `python docs/protocol.py`, a test compares the three, and the tests let no event out that the models do not have.

## Transports

| | WebRTC | WebSocket |
| --- | --- | --- |
| opened by | `POST /v1/realtime/calls`: the offer as `application/sdp`, or a form with the parts `sdp` and `session`; 201 with the answer, `Location: /v1/realtime/calls/rtc_…` | `GET /v1/realtime`, subprotocol `realtime` |
| events | JSON text in the data channel `oai-events`, which the client opens | JSON text frames |
| the user's sound | the audio track | `input_audio_buffer.append` |
| the model's sound | the audio track, in real time | `response.output_audio.delta`, ahead of playback by `duplex.lead_ms` |
| what was heard | known to the server, which truncates by itself | told by the client, `conversation.item.truncate` |
| ended by | `POST /v1/realtime/calls/{id}/hangup`, or the connection's end | the socket's close |

Audio in events is base64 of `audio/pcm` (24 kHz, 16 bits, little endian, mono) unless the session says otherwise. Positions are
whole milliseconds. `?model=` is taken and has no effect.

## Who is let in

With API keys set, each request brings `Authorization: Bearer KEY`, or a client secret in place of the key. A browser's WebSocket
brings it as the subprotocol `openai-insecure-api-key.KEY` beside `realtime`. Secrets come from `POST /v1/realtime/client_secrets`:
`{"expires_after": {"anchor": "created_at", "seconds": 600}, "session": {…}}` gives `{"value": "ek_…", "expires_at": …, "session": {…}}`.
They open sessions until they expire, 10 to 7200 s after they were made. More in [security.md](security.md).

HTTP errors are `{"error": {"type", "code", "message", "param"}}`.

## Rules

- Every server event has an `event_id` whose number grows by one. A client may send an `event_id` with any event; an `error` that
  it causes names it.
- An `error` ends nothing. What could not be taken is not taken in part.
- Unknown fields are ignored, and counted in the server's measures; an unknown `type` is an `error`. Clients do well to ignore what
  they do not know. Fields of the session and of `response.create` that the protocol has moved since its beta (`turn_detection`,
  `input_audio_format`, `modalities`, …) are an `error` that names their present place, unless that is sent as well.
- A response has exactly one end, `response.done`, whose `status` says how: there is no event of its own for a cancellation.
- The same content is `output_audio` in an item and `audio` as a content part; `output_text` and `text`.
- One response at a time is in progress in the conversation.
- The deltas of a response's text add up to its `done`. Those of a transcript add up to `completed`, unless the whole turn, once it was
  heard, reads otherwise than its beginning did: a delta cannot be called back, and `completed` is what holds.
- A call's data channel takes events as large as its client offers (`a=max-message-size`; browsers: 256 KiB). In place of a larger one
  comes an `error` with the code `event_not_sent`, whose `duplex.unsent` says which. A side channel of the call is told of it whole.
- A session object that goes back shows what is in effect, not what was asked for. In a `session.update` an absent field keeps what
  stands, `null` is the default again, `""` clears the instructions, `[]` the tools; `null` turns turn detection off, and transcripts.

## Lifecycles

`>` is sent by the client, `…` means more of the same.
"""
_BAR = r"\|"
_PARTS = (
    ("Client events", "client", "All have `type`, and may have `event_id` (text, up to 512 characters)."),
    ("Server events", "server", "All have `type` and `event_id`."),
)


def render(vocabulary: Vocabulary) -> str:
    """Return the page."""
    parts = [_HEAD]
    parts += [f"### {title}\n\n```\n{steps}\n```\n" for title, steps in LIFECYCLES.items()]
    for title, side, words in _PARTS:
        names = vocabulary.client if side == "client" else vocabulary.server
        parts.append(f"## {title}\n\n{words}\n")
        parts += [_event(vocabulary, name) for name in names]
    events = {*vocabulary.client, *vocabulary.server}
    parts.append("## What events are made of\n")
    parts += [_object(vocabulary, each) for name, each in vocabulary.definitions.items() if name not in events]
    parts.append("## Error codes\n\n| code | when |\n| --- | --- |")
    parts[-1] += "".join(f"\n| `{code}` | {when} |" for code, when in ERROR_CODES.items()) + "\n"
    parts.append(
        "## Never sent\n\nClients of the OpenAI Realtime API may know these; this server does not send them.\n"
    )
    parts.append(
        "| event | why |\n| --- | --- |" + "".join(f"\n| `{k}` | {why} |" for k, why in NEVER_SENT.items()) + "\n"
    )
    return "\n".join(parts)


def _event(vocabulary: Vocabulary, name: str) -> str:
    definition = vocabulary.definitions[name]
    only = f" {TRANSPORTS[definition.only_on]} only." if definition.only_on is not None else ""
    return f"### {vocabulary.kind(name)}\n\n{definition.words}{only}\n{_table(vocabulary, definition, hidden=('type', 'event_id'))}"


def _object(vocabulary: Vocabulary, definition: Definition) -> str:
    if definition.name == "ErrorCode":
        return "### ErrorCode\n\nText: one of the [error codes](#error-codes).\n"
    choice = f"\n{_linked(vocabulary, definition.type)}\n" if definition.type else ""
    return f"### {definition.name}\n\n{definition.words}\n{choice}{_table(vocabulary, definition, hidden=())}"


def _table(vocabulary: Vocabulary, definition: Definition, hidden: tuple[str, ...]) -> str:
    fields = [field for field in definition.fields if field.name not in hidden]
    if not fields:
        return ""
    rows = ["", "| field | type | meaning |", "| --- | --- | --- |"]
    for field in fields:
        bounds = f", {field.bounds}" if field.bounds else ""
        optional = "" if field.required else "?"
        rows.append(
            f"| `{field.name}{optional}` | {_linked(vocabulary, field.type)}{bounds} | {meaning(vocabulary, field)} |"
        )
    return "\n".join([*rows, ""])


def meaning(vocabulary: Vocabulary, field: Field) -> str:
    """Return a field's words, or those of the object that it holds; a constant says itself."""
    name = field.type.removesuffix(" | null").removesuffix("[]")
    if not field.words and name in vocabulary.definitions:
        return vocabulary.definitions[name].words
    return field.words


def _linked(vocabulary: Vocabulary, kind: str) -> str:
    """Return a type with links to what it is made of."""
    names = re.split(r"(\w+)", kind)
    if not any(name in vocabulary.definitions for name in names):
        return f"`{kind.replace('|', _BAR)}`"
    return "".join(f"[{name}](#{name.lower()})" if name in vocabulary.definitions else _escape(name) for name in names)


def _escape(text: str) -> str:
    return text.replace("|", _BAR).replace("[", "\\[").replace("]", "\\]")


if __name__ == "__main__":
    read = read_vocabulary()
    PAGE.write_text(render(read))
    TYPES.write_text(typescript(read))
