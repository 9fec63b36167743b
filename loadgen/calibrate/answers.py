"""What a pack's answers are like: tokens and clauses of their text, length and first silence of their sound."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from duplex.config import MediaSettings, PacingSettings
from duplex.media import opus
from duplex.media.resample import StreamResampler
from duplex.payloads import Audio, LatentChunk, Latents, Role
from duplex.session.clauses import ClauseSplitter
from loadgen.calibrate.material import clause, quantiles
from loadgen.calibrate.probes import answers
from loadgen.calibrate.stages import CalibrationError, Stages
from loadgen.jobs import job
from loadgen.live.sound import level_of
from loadgen.live.speech import PACKET
from loadgen.sim.profile import Voice

RATE = 48_000
_BEFORE = 10
"""Packets of silence before an answer: the codec has settled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What came of the answers."""

    texts: tuple[str, ...]
    tokens_per_word: float
    voice: Voice


def listen_to_answers(stages: Stages, count: int, rng: random.Random) -> Said:
    """Let thinker, talker and vocoder answer questions to the end.

    Raises:
        CalibrationError: no answer can be spoken.
    """
    found = answers(stages, count, rng)
    texts = tuple(answer.text for answer in found if answer.text.strip())
    words = sum(len(text.split()) for text in texts)
    if not words:
        raise CalibrationError("the thinker says nothing that can be spoken")
    split = [_clauses(text) for text in texts]
    sounds = [[_latents(stages, piece, index) for index, piece in enumerate(pieces)] for pieces in split]
    first = sounds[0][0]
    seconds = sum(each.frames * each.hop / each.rate for pieces in sounds for each in pieces)
    later = [len(piece.split()) for pieces in split for piece in pieces[1:]] or [words]
    lead_ins = [ms for pieces in sounds if (ms := _lead_in_ms(stages, pieces[0])) is not None]
    return Said(
        texts=texts,
        tokens_per_word=round(sum(answer.tokens for answer in found) / words, 3),
        voice=Voice(
            words_per_minute=round(60 * words / seconds, 1),
            frame_ms=round(1000 * first.hop / first.rate, 3),
            clause_words=max(1, round(statistics.fmean(later))),
            lead_in_ms=quantiles(lead_ins),
        ),
    )


def _clauses(text: str) -> Sequence[str]:
    splitter = ClauseSplitter(PacingSettings().first_clause_words_max)
    return [*splitter.push(text), *splitter.finish()]


def _latents(stages: Stages, text: str, index: int) -> Latents:
    (result,), _ = stages.step(Role.TALK, [job(clause(text, stages.pack.voices[0], index))])
    assert isinstance(result, Latents)
    return result


def _lead_in_ms(stages: Stages, latents: Latents) -> float | None:
    """Return the silence before a clause's first audible sample, as an ear has it behind the codec; None where none is audible."""
    if not latents.frames:
        return None
    (audio,), _ = stages.step(Role.VOCODE, [job(LatentChunk(latents=latents, first=0, last=latents.frames))])
    assert isinstance(audio, Audio)
    pcm = StreamResampler(audio.rate, RATE).push(audio.pcm, last=True)
    packets = np.pad(pcm, (0, -len(pcm) % PACKET)).reshape(-1, PACKET)
    media = MediaSettings()
    encoder, decoder = opus.Encoder(bitrate=media.opus_bitrate, complexity=media.opus_complexity), opus.Decoder()
    for _ in range(_BEFORE):
        decoder.decode(encoder.encode(np.zeros(PACKET, np.int16)))
    for number, packet in enumerate(packets):
        audible = level_of(decoder.decode(encoder.encode(packet)), opus.HEAR_RATE).audible
        if audible is not None:
            return 1000 * (number + audible[0]) * PACKET / RATE
    return None
