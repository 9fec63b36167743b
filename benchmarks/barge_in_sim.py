"""Does a cut hold? 10,000 randomised barge-ins on simulated time, on the production core, actor, runners and egress.

Sessions speak over replies at random moments while every stage takes random time, so that results come after the cut. Probes
beside each gate count stale payloads on every edge; the lifecycle of every session is checked.
"""

from __future__ import annotations

import argparse
import functools
import time

import structlog
from duplex_models.sim import SimOptions

from benchmarks.report import quantiles, write
from tests.sim.world import Server

SESSIONS = 50
TEXT = " ".join(f"word{i}," if i % 5 == 4 else f"word{i}" for i in range(60))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--barge-ins", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    cuts = stale = packets = runs = 0
    unheard: list[float] = []
    began, media_s = time.perf_counter(), 0.0
    while cuts < options.barge_ins:
        server = Server(
            SimOptions(vad="level", script=(TEXT,), first_token_s=0.03, token_s=0.02), seed=options.seed + runs
        )
        runs += 1
        rng = server.world.random
        for stage in ("transcribe", "end_of_turn", "talk", "vocode"):
            server.world.costs[stage] = functools.partial(rng.uniform, 0.0, 0.12)
        sessions = [server.connect("webrtc" if i % 4 else "websocket") for i in range(SESSIONS)]
        for session in sessions:
            session.say(rng.uniform(300, 900))
        for _ in range(60):
            server.advance(rng.uniform(300, 900))
            media_s += SESSIONS * 0.6
            for session in sessions:
                if rng.random() < 0.4:
                    session.say(rng.uniform(350, 900))
        for session in sessions:
            session.leave()
        server.advance(2000)
        server.check()
        assert server.runners.idle and server.stage("think").running == 0
        cuts += int(server.total("duplex_barge_in_total", outcome="confirmed"))
        stale += len(server.stale)
        packets += int(server.total("duplex_stale_packets_total"))
        unheard += [v for v in server.values("duplex_unheard_audio_seconds_total") if v > 0]
    write(
        "barge_in_sim",
        {
            "barge_ins": cuts,
            "stale_payloads_on_any_edge": stale,
            "stale_packets": packets,
            "unheard_audio_s_per_cut": quantiles(unheard),
            "simulated_session_minutes": round(media_s / 60),
            "wall_s": round(time.perf_counter() - began, 1),
        },
    )


if __name__ == "__main__":
    main()
