"""Every message and effect has a form in JSON, and messages come back from it as they were."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing
from typing import Any

import numpy as np
import pytest

from duplex.payloads import (
    Address,
    Audio,
    CallDelta,
    Clause,
    EncodedImage,
    Job,
    JobId,
    LatentChunk,
    Latents,
    Pace,
    Role,
    Tool,
    Toolset,
    Transcript,
    Utterance,
    WordMark,
)
from duplex.session.config import SessionConfig, TurnDetection
from duplex.session.effects import Enqueue, Observe, Send, Submit
from duplex.session.events import Failure, ReplyDone, ReplyView
from duplex.session.messages import (
    Configure,
    Connected,
    CreateCallOutput,
    CreateItem,
    CreateReply,
    Heard,
    Inbound,
    Network,
    Sent,
    StageOutput,
    Undelivered,
)
from duplex.telemetry.recording.codec import CodecError, Opaque, Silhouette, Withheld, from_plain, plain
from duplex.timeline.ledger import Kind, SentRange
from duplex.units import MonoNs, Samples, Span

pytestmark = pytest.mark.unit

SPAN = Span(Samples(0), Samples(1536))
PCM = np.arange(-3, 5, dtype=np.int16)
UNDELIVERED = Undelivered(
    item_id="i", delivered=Samples(960), length=Samples(1920), events=2, kept=True, cancelled=False
)
WORDS = (WordMark(text_end=3, end=7),)
LATENTS = Latents(clause=0, frames=9, hop=480, rate=24_000, words=WORDS, data=np.ones(3, np.float32))


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(plain(value)))


@pytest.mark.parametrize(
    "message",
    [
        Heard(span=SPAN, probability=0.1 + 0.2, arrived=MonoNs(2**62)),
        Network(rtt_ms=None, jitter_ms=1e-9, lost=3),
        Sent(lane=0, ranges=(SentRange(kind=Kind.CONTENT, length=Samples(960), reply="r"),), cut=2),
        StageOutput(job=JobId(7), payload=Transcript(span=SPAN, text="caf\u00e9 \ud800 \x00")),
        CreateReply(metadata={"$": "Heard", "k": "v"}, modalities=("text",)),
        Connected(again=True, seen=3, missed=2, undelivered=(UNDELIVERED,)),
        Configure(config=SessionConfig(turn_detection=None, wire={"tools": [], "nested": {"a": [1, None, {"$": 1}]}})),
        Configure(config=SessionConfig(turn_detection=TurnDetection(threshold=0.5))),
        CreateReply(toolset=Toolset(tools=(Tool(name="f", description="", parameters="{}"),), choice="required")),
        CreateCallOutput(call_id="c", output="18"),
        StageOutput(job=JobId(7), payload=CallDelta(index=0, name="f", arguments="{}", tokens=1, last=True)),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_message_comes_back_as_it_was(message: Inbound) -> None:
    assert from_plain(through_json(message)) == message


def test_a_sound_comes_back_as_its_length_and_hash_and_is_written_the_same_again() -> None:
    audio = Audio(clause=1, pcm=PCM, rate=24_000, last=True)
    back = from_plain(through_json(StageOutput(job=JobId(1), payload=audio)))
    assert isinstance(back.payload.pcm, Silhouette)
    assert len(back.payload.pcm) == len(PCM)
    assert plain(back.payload) == plain(audio)
    louder = dataclasses.replace(audio, pcm=PCM * 2)
    assert plain(louder)["pcm"]["hash"] != plain(audio)["pcm"]["hash"]


def test_an_image_comes_back_as_its_kind_sizes_and_hash_and_is_written_the_same_again() -> None:
    image = EncodedImage(format="png", width=4, height=3, size_bytes=5, data=b"image")
    item = CreateItem(role="user", text="", images=(image,))
    back = from_plain(through_json(item))
    assert back.images[0].data == Withheld(size=5, hash=hashlib.blake2b(b"image", digest_size=16).hexdigest())
    assert dataclasses.replace(back.images[0], data=b"image") == image
    assert plain(back) == plain(item)
    assert "image" not in json.dumps(plain(item.images[0])["data"])


def test_samples_are_written_only_where_they_are_wanted() -> None:
    audio = Audio(clause=1, pcm=PCM, rate=24_000, last=True)
    assert "data" not in plain(audio)["pcm"]
    assert plain(audio, keep_pcm=True)["pcm"]["data"]
    assert len(from_plain(plain(audio, keep_pcm=True)).pcm) == len(PCM)


def test_the_users_sound_is_never_written() -> None:
    item = CreateItem(role="user", text="", audio=Utterance(span=SPAN, pcm=PCM))
    written = plain(item, keep_pcm=True)
    assert written["audio"]["pcm"] == plain(PCM)
    assert "data" not in written["audio"]["pcm"]
    assert plain(from_plain(written)) == written


def test_what_only_the_vocoder_understands_is_not_looked_into() -> None:
    back = from_plain(through_json(LATENTS))
    assert back.data == Opaque(type="ndarray")
    assert (back.frames, back.words) == (9, WORDS)
    assert plain(back) == plain(LATENTS)


@pytest.mark.parametrize(
    "effect",
    [
        Submit(
            job=Job(
                id=JobId(1), stage=Role.VOCODE, address=Address(session="s", lane=0, epoch=1, reply="r"),
                payload=LatentChunk(latents=LATENTS, first=0, last=3), pace=Pace(since=MonoNs(1), dry_at=MonoNs(2)),
            )
        ),
        Enqueue(
            address=Address(session="s", lane=0, epoch=0, reply="r"), item_id="i", last=False,
            audio=Audio(clause=0, pcm=PCM, rate=24_000, last=False),
        ),
        Send(event=ReplyDone(reply=ReplyView(id="r", item=None, status="failed", metadata={"a": "b"}))),
        Send(event=Failure(code="c", message="m")),
        Observe(measure="m", value=float("inf"), labels={"b": "1", "a": "2"}),
    ],
    ids=lambda effect: type(effect).__name__,
)  # fmt: skip
def test_an_effect_has_a_form_that_names_its_class(effect: Any) -> None:
    written = through_json(effect)
    assert written["$"] == type(effect).__name__
    assert written.keys() - {"$"} == {field.name for field in dataclasses.fields(effect)}


def test_only_what_a_message_can_hold_comes_back() -> None:
    for written in ({"$": "Settings"}, {"$": "Path"}, {"$": "Heard", "span": 1}, {"$": "Heard", "extra": 1}, {"$": []}):
        with pytest.raises(CodecError):
            from_plain(written)
    members = {member.__name__ for member in typing.get_args(Inbound)}
    for name in members:
        with pytest.raises(CodecError, match="unexpected keyword"):
            from_plain({"$": name, "no such field": 1})


@pytest.mark.parametrize("value", [bytearray(b"bytes"), {1, 2}, object(), np.zeros(3), np.zeros((2, 2), np.int16)])
def test_what_has_no_form_is_refused(value: Any) -> None:
    with pytest.raises(CodecError, match="no form"):
        plain(value)


def test_a_clause_keeps_its_numbers_exactly() -> None:
    clause = Clause(index=0, text="a", voice="v", speed=0.1 + 0.7)
    assert through_json(clause)["speed"] == clause.speed
    assert plain(np.float32(0.1)) == float(np.float32(0.1))
