"""Turns whose words are not done: held in the pause, adopted at the longest silence or gone on with."""

from __future__ import annotations

from typing import Any

import pytest
from duplex_models.sim import SimOptions

from duplex.config import Settings, TurnSettings, UnfinishedSettings
from duplex.payloads import StageError
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim
BEGUN, WHOLE = "Send it to my", "Send it to my brother."
COMMITTED, STARTED = "input_audio_buffer.committed", "output_audio_buffer.started"
COSTS: dict[str, Any] = {
    "first_token_s": 0.03,
    "token_s": 0.005,
    "talk_s": 0.02,
    "vocode_s": 0.01,
    "end_of_turn_s": 0.09,
}
SPOKEN_MS = 960


def serve(*transcripts: str, settings: Settings | None = None, **options: Any) -> Server:
    heard = {"language": "en", "transcripts": transcripts, "transcribe_s": 0.07}
    return Server(SimOptions(**({"vad": "level"} | COSTS | heard | options)), settings)


def detect(**fields: Any) -> dict[str, Any]:
    return {"type": "realtime", "audio": {"input": {"turn_detection": fields}}}


def answered_ms(server: Server, session: Session) -> tuple[float, float]:
    """Speak one turn; return when it was committed and answered, after its end."""
    session.say(SPOKEN_MS)
    server.advance(SPOKEN_MS)
    end = server.world.now()
    server.advance(12_000)
    server.check()
    return (session.client.at(COMMITTED) - end) / 1e6, (session.client.at(STARTED) - end) / 1e6


def test_a_sentence_that_is_gone_on_with_is_one_turn_and_its_draft_is_thrown_away() -> None:
    server = serve(BEGUN, WHOLE)
    session = server.connect()
    session.say(SPOKEN_MS)
    server.advance(SPOKEN_MS + 1200)
    assert not session.client.of(COMMITTED)
    session.say(600)
    server.advance(6000)
    assert len(session.client.of(COMMITTED)) == 1
    assert [event["response"]["status"] for event in session.client.of("response.done")] == ["completed"]
    assert server.stage("think").prompts[-1].messages[-1].text == WHOLE
    assert server.total("duplex_turn_holds_total", outcome="resumed") == 1
    assert server.total("duplex_turn_holds_total") == 1
    assert server.total("duplex_speculation_total", outcome="resumed") == 1
    server.check()


@pytest.mark.parametrize(("eagerness", "cap_ms"), [("high", 1000), ("auto", 2000), ("low", 8000)])
def test_it_waits_for_the_longest_silence_of_its_eagerness_and_is_answered_at_once(eagerness: str, cap_ms: int) -> None:
    server = serve(BEGUN)
    committed, answered = answered_ms(server, server.connect(wire=detect(type="semantic_vad", eagerness=eagerness)))
    assert cap_ms <= committed <= cap_ms + 64
    assert answered - committed <= 20, "the draft waited for it"
    assert server.total("duplex_turn_holds_total", outcome="ended") == 1
    assert server.total("duplex_speculation_total", outcome="adopted") == 1


@pytest.mark.parametrize("transcribe_s", [0.02, 0.07, 0.3, 0.7])
@pytest.mark.parametrize("eagerness", ["low", "auto"])
def test_whole_sentences_are_answered_as_soon_as_without_lists(transcribe_s: float, eagerness: str) -> None:
    def answer(language: str) -> float:
        server = serve(
            WHOLE, settings=Settings(unfinished=UnfinishedSettings(language=language)), transcribe_s=transcribe_s
        )
        return answered_ms(server, server.connect(wire=detect(type="semantic_vad", eagerness=eagerness)))[1]

    assert answer("en") <= answer("")


def test_words_that_come_after_the_look_are_waited_for() -> None:
    settings = Settings(turn=TurnSettings(partial_every_ms=0))
    server = serve(WHOLE, settings=settings, transcribe_s=0.45)
    committed, _ = answered_ms(server, server.connect())
    assert 450 <= committed <= 550
    server = serve(BEGUN, transcribe_s=0.45)
    late, _ = answered_ms(server, server.connect())
    assert late >= 2000


def test_without_words_the_model_decides() -> None:
    server = serve(BEGUN)
    server.stage("transcribe").step = lambda jobs: [StageError(reason="broken") for _ in jobs]
    session = server.connect()
    session.say(SPOKEN_MS)
    server.advance(SPOKEN_MS + 450)
    assert len(session.client.of(COMMITTED)) == 1


@pytest.mark.parametrize("silence_ms", [300, 500])
def test_server_vad_counts_silence_alone(silence_ms: int) -> None:
    server = serve(BEGUN)
    wire = detect(type="server_vad", silence_duration_ms=silence_ms)
    committed, _ = answered_ms(server, server.connect(wire=wire))
    assert silence_ms <= committed <= silence_ms + 64
    assert not server.total("duplex_turn_holds_total")


@pytest.mark.parametrize("language", [None, "de"])
def test_a_pack_that_hears_another_language_is_not_asked_for_words(language: str | None) -> None:
    server = serve(BEGUN, language=language)
    committed, _ = answered_ms(server, server.connect())
    assert committed <= 450
