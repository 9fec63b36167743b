"""Interruptions on simulated time: two phases, heard-only history, and nothing stale after a cut."""

import base64
import functools

import numpy as np
import pytest
from duplex_models.sim import SimOptions

from duplex.config import BargeInSettings, Settings
from duplex.units import ns_from_ms
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim
LONG = " ".join(f"word{i}" for i in range(40))


def speaking(server: Server, transport: str = "webrtc", **wire: object) -> Session:
    """Return a session whose reply has been sounding for two seconds."""
    session = server.connect(transport, wire={"type": "realtime", **wire} if wire else None)  # type: ignore[arg-type]
    session.type_text("go on")
    server.advance(2100)
    return session


def long_server(**options: object) -> Server:
    return Server(SimOptions(vad="level", script=(LONG,), **options))  # type: ignore[arg-type]


def test_an_interruption_ducks_at_the_onset_and_cuts_at_the_confirmation() -> None:
    server = long_server()
    session = speaking(server)
    onset = server.world.now()
    session.say(1000)
    server.advance(1000)
    levels = {(when - onset) // 1_000_000: np.abs(pcm).max() for when, pcm, _ in session.packets if pcm is not None}
    full = levels[min(ms for ms in levels if ms >= 0)]
    ducked = [level for ms, level in levels.items() if 180 < ms < 320]
    assert ducked and all(0.2 < level / full < 0.3 for level in ducked)
    last_sound = (session.sounding()[-1] - onset) / 1e6
    assert 310 <= last_sound <= 420
    assert session.client.at("input_audio_buffer.speech_started") - onset <= ns_from_ms(420)
    assert session.client.of("response.done")[0]["response"]["status_details"]["reason"] == "turn_detected"
    assert server.total("duplex_barge_in_total", outcome="confirmed") == 1
    server.check()


def test_speech_started_comes_before_the_replys_end_and_is_backdated() -> None:
    server = long_server()
    session = speaking(server)
    said_at_ms = server.world.now() // 1_000_000
    session.say(1000)
    server.advance(1500)
    kinds = session.client.types()
    assert kinds.index("input_audio_buffer.speech_started") < kinds.index("response.done")
    start = session.client.of("input_audio_buffer.speech_started")[0]["audio_start_ms"]
    assert said_at_ms - 300 - 60 <= start <= said_at_ms - 300 + 60


def test_a_cough_is_ducked_and_taken_back_without_a_word_on_the_wire() -> None:
    server = long_server()
    session = speaking(server)
    onset = server.world.now()
    session.say(150)
    server.advance(2000)
    assert "input_audio_buffer.speech_started" not in session.client.types()
    assert "response.done" not in session.client.types()
    level = {(when - onset) // 1_000_000: np.abs(pcm).max() for when, pcm, _ in session.packets if pcm is not None}
    assert min(level[ms] for ms in level if 200 < ms < 600) < 0.3 * max(level.values())
    assert min(level[ms] for ms in level if 900 < ms < 1900) > 0.9 * max(level.values())
    assert server.total("duplex_barge_in_total", outcome="refused") == 1


def test_hold_withholds_and_resumes_from_a_words_start() -> None:
    server = long_server()
    session = speaking(server, duplex={"on_onset": "hold"})
    onset = server.world.now()
    session.say(150)
    server.advance(14_000)
    quiet = [
        when
        for when, pcm, _ in session.packets
        if onset < when < onset + ns_from_ms(700) and (pcm is None or not pcm.any())
    ]
    assert len(quiet) > 20
    sounded_ms = 20 * len(session.sounding())
    assert 40 * 300 <= sounded_ms <= 40 * 300 + 320
    assert session.client.of("response.done")[0]["response"]["status"] == "completed"
    server.check()


def test_none_leaves_the_level_alone_until_the_cut() -> None:
    server = long_server()
    session = speaking(server, duplex={"on_onset": "none"})
    onset = server.world.now()
    session.say(1000)
    server.advance(1000)
    before_cut = [
        np.abs(p).max() for when, p, _ in session.packets if p is not None and onset < when < onset + ns_from_ms(340)
    ]
    assert min(before_cut) > 11_000
    assert session.client.of("response.done")


def test_interrupt_response_false_never_ducks_or_cuts_and_the_turn_is_answered_after() -> None:
    server = long_server(transcripts=("me too",))
    turn_detection = {"type": "server_vad", "interrupt_response": False}
    session = speaking(server, audio={"input": {"turn_detection": turn_detection}})
    session.say(1000)
    server.advance(9000)
    levels = [np.abs(pcm).max() for _, pcm, _ in session.packets[110:400] if pcm is not None]
    assert min(levels) > 11_000
    server.advance(20_000)
    done = [event["response"]["status"] for event in session.client.of("response.done")]
    assert done == ["completed", "completed"]
    assert server.stage("think").prompts[-1].messages[-1].text == "me too"


@pytest.mark.parametrize("on_onset", ["duck", "hold"])
def test_interrupt_response_false_holds_for_a_voice_that_has_begun(on_onset: str) -> None:
    server = long_server(transcripts=("me too",))
    session = speaking(server, duplex={"on_onset": on_onset})
    session.say(1000)
    server.advance(220)
    session.event(
        type="session.update", session={"audio": {"input": {"turn_detection": {"interrupt_response": False}}}}
    )
    updated = len(session.packets)
    server.advance(25_000)
    levels = [0 if pcm is None else np.abs(pcm).max() for _, pcm, _ in session.packets[updated + 1 : updated + 100]]
    assert min(levels) > 11_000
    done = [event["response"]["status"] for event in session.client.of("response.done")]
    assert done == ["completed", "completed"]
    assert server.stage("think").prompts[-1].messages[-1].text == "me too"
    server.check()


def test_history_holds_the_words_that_were_heard() -> None:
    server = long_server()
    session = speaking(server)
    session.say(1000)
    server.advance(4000)
    truncated = session.client.of("conversation.item.truncated")[0]["audio_end_ms"]
    heard = server.stage("think").prompts[-1].messages[1].text.split()
    assert heard == LONG.split()[: truncated // 300]
    assert 6 <= len(heard) <= 8


@pytest.mark.parametrize("moment", [150, 700, 1310, 2040])
def test_what_counts_as_heard_is_what_left_not_what_was_made(moment: int) -> None:
    server = long_server()
    session = server.connect()
    session.type_text("go on")
    server.advance(moment)
    session.event(type="response.cancel")
    server.advance(200)
    heard_ms = session.client.of("conversation.item.truncated")[0]["audio_end_ms"]
    assert heard_ms == pytest.approx(20 * len(session.sounding()), abs=21)
    made_ms = heard_ms + 1000 * server.total("duplex_unheard_audio_seconds_total")
    assert made_ms >= heard_ms + 60


def test_on_websocket_the_clients_truncate_is_honoured_to_the_word() -> None:
    server = long_server()
    session = speaking(server, "websocket")
    session.say(1000)
    server.advance(500)
    item = session.client.of("response.output_item.added")[0]["item"]["id"]
    session.event(type="conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=1250)
    server.advance(4000)
    assert session.client.of("conversation.item.truncated")[0]["audio_end_ms"] == 1250
    assert server.stage("think").prompts[-1].messages[1].text.split() == LONG.split()[:4]


def test_an_interruption_after_generation_ended_cuts_the_tail_and_no_second_terminal_event() -> None:
    server = Server(SimOptions(vad="level", script=("one two three four five six seven eight nine ten",)))
    session = server.connect()
    session.type_text("go")
    while "response.done" not in session.client.types():
        server.advance(5)
    onset = server.world.now()
    session.say(1000)
    server.advance(700)
    kinds = session.client.types()
    assert "output_audio_buffer.cleared" in kinds
    assert "output_audio_buffer.stopped" not in kinds
    assert session.sounding()[-1] - onset <= ns_from_ms(450)
    assert kinds.count("response.done") == 1
    assert session.client.of("conversation.item.truncated")
    server.check()


def test_cancel_then_create_in_one_write_runs_only_the_second() -> None:
    server = Server()
    for i in range(50):
        session = server.connect()
        server.advance(7 * i % 13)
        session.event(type="response.create", response={"metadata": {"n": "A"}})
        session.event(type="response.cancel")
        session.event(type="response.create", response={"metadata": {"n": "B"}})
        server.advance(1500)
        done = session.client.of("response.done")
        assert [(d["response"]["metadata"]["n"], d["response"]["status"]) for d in done] == [("A", "cancelled")]
        assert len(set(server.stage("vocode").tones) & {d["response"]["id"] for d in done}) == 0
        session.leave()
    server.check()


def test_a_cancel_is_a_fade_and_then_silence() -> None:
    server = long_server()
    for i in range(30):
        session = server.connect()
        session.type_text("go")
        server.advance(1000 + 3.7 * i)
        when = server.world.now()
        session.event(type="response.cancel")
        server.advance(600)
        after = [(at - when, pcm) for at, pcm, _ in session.packets if at > when and pcm is not None and pcm.any()]
        assert len(after) <= 1
        heard = session.heard().astype(int)
        slope = 12_000 * 2 * np.pi * 1600 / 48_000
        assert np.abs(np.diff(heard)).max() <= 1.5 * slope
        session.leave()
    server.check()


def test_the_durations_are_configuration() -> None:
    settings = Settings(barge_in=BargeInSettings(confirm_ms=640, resolve_ms=1500))
    server = Server(SimOptions(vad="level", script=(LONG,)), settings)
    session = speaking(server)
    session.say(500)
    server.advance(2000)
    assert "response.done" not in session.client.types()
    session.say(1000)
    server.advance(1000)
    assert session.client.types().count("response.done") == 1


def test_random_interruptions_leave_nothing_stale_on_any_edge() -> None:
    """300 sessions interrupted at random moments, with random costs at every stage; all invariants are checked."""
    for seed in range(6):
        server = Server(
            SimOptions(vad="level", script=(LONG, "Short one."), first_token_s=0.05, token_s=0.01), seed=seed
        )
        rng = server.world.random
        for stage in ("transcribe", "end_of_turn", "talk", "vocode"):
            server.world.costs[stage] = functools.partial(rng.uniform, 0.0, 0.09)
        sessions = [server.connect("webrtc" if i % 3 else "websocket") for i in range(50)]
        for session in sessions:
            session.say(rng.uniform(300, 900))
        for _ in range(12):
            for session in sessions:
                match rng.randrange(8):
                    case 0:
                        session.say(rng.uniform(100, 1200))
                    case 1:
                        session.event(type="response.cancel")
                    case 2 if session.client.closed is None:
                        session.event(type="response.create")
            server.advance(rng.uniform(50, 900))
        for session in sessions:
            session.leave()
        server.advance(3000)
        server.check()
        assert server.total("duplex_barge_in_total", outcome="confirmed") > 15
        assert server.runners.idle
        assert server.stage("think").running == 0
        assert all(len(session.ended) == 1 for session in sessions)


def test_a_hold_whose_reply_ends_meanwhile_does_not_silence_the_next_one() -> None:
    server = Server(SimOptions(vad="level", script=("one two three", "and now the answer to that")))
    session = server.connect(wire={"type": "realtime", "duplex": {"on_onset": "hold"}})
    session.type_text("go")
    server.advance(830)  # the last packet has left, the listener has not heard it
    session.say(900)
    server.advance(5000)
    assert session.client.types().count("response.done") == 2
    second = session.client.of("output_audio_buffer.started")[1]
    assert second
    assert len(session.sounding()) * 20 >= 900 + 6 * 300 - 60
    server.check()


@pytest.mark.parametrize("moment", [50, 400])
def test_a_cough_over_a_reply_that_is_still_being_thought_holds_nothing_back(moment: int) -> None:
    server = Server(SimOptions(vad="level", script=("one two three four five",), first_token_s=1.0))
    session = server.connect(wire={"type": "realtime", "duplex": {"on_onset": "hold"}})
    session.type_text("go")
    server.advance(moment)
    session.say(150)
    server.advance(6000)
    assert 20 * len(session.sounding()) == pytest.approx(1500, abs=60)
    server.check()


def test_a_voice_that_goes_on_before_the_reply_began_is_answered_with_what_came_before() -> None:
    server = Server(SimOptions(vad="level", transcribe_s=0.6, transcripts=("first part", "second part")))
    session = server.connect()
    session.say(700)
    server.advance(700 + 400)  # committed; its words are on their way
    assert "input_audio_buffer.committed" in session.client.types()
    session.say(1200)
    server.advance(7500)
    done = session.client.of("response.done")
    assert [event["response"]["status"] for event in done] == ["completed"]
    assert server.stage("think").prompts[-1].messages[-1].text == "first part second part"
    server.check()


def test_noise_that_cut_an_unheard_reply_leaves_the_question_answered() -> None:
    server = Server(SimOptions(vad="level", first_token_s=1.0, transcripts=("a question", "")))
    session = server.connect()
    session.say(700)
    server.advance(700 + 440)
    session.say(500)
    server.advance(8000)
    statuses = [event["response"]["status"] for event in session.client.of("response.done")]
    assert statuses == ["cancelled", "completed"]
    assert server.stage("think").prompts[-1].messages[-1].text == "a question"


def test_input_that_stops_during_an_onset_ends_it_and_restores_the_level() -> None:
    server = long_server()
    session = speaking(server)
    session.say(2000)
    server.advance(200)
    session.mute()
    server.advance(3000)
    assert server.total("duplex_barge_in_total", outcome="refused") == 1
    loud = [np.abs(pcm).max() for _, pcm, _ in session.packets[-40:] if pcm is not None]
    assert min(loud) > 11_000
    assert "response.done" not in session.client.types()


def test_a_clients_truncate_is_not_taken_back_by_the_cut_that_follows() -> None:
    server = long_server()
    session = speaking(server, "websocket")
    item = session.client.of("response.output_item.added")[0]["item"]["id"]
    session.event(type="conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=650)
    session.say(1000)
    server.advance(4000)
    assert server.stage("think").prompts[-1].messages[1].text.split() == LONG.split()[:2]


def test_an_onset_over_websocket_audio_changes_no_level() -> None:
    server = long_server()
    session = speaking(server, "websocket")
    session.say(150)
    server.advance(4000)
    loudest = []
    for event in session.client.of("response.output_audio.delta"):
        loudest.append(np.abs(np.frombuffer(base64.b64decode(event["delta"]), "<i2")).max())
    assert min(loudest) > 11_000
