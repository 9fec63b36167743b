"""Write docs/performance.md from the results, so that the page cannot say what was not measured: `python -m benchmarks.table`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.report import RESULTS

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
HEAD = """\
# Performance

Every figure comes from a file in `benchmarks/results/`, which names its command, commit and machine; this page is made from
them by `python -m benchmarks.table`, and a test compares the two. `make bench` measures everything anew (about two hours, most of it simulation; `make bench ARGS=ttfas` one alone). The machines are small, shared and
noisy: compare figures of one run with each other, not with those of other days. The browser, the server and the models share
the two cores.
"""
Row = tuple[str, str, str]
"""What, goal, measured."""


def _q(values: dict[str, float], unit: str = "ms") -> str:
    return f"p50 {values['p50']:.0f}, p95 {values['p95']:.0f}, max {values['max']:.0f} {unit} (n = {values['n']:.0f})"


def _fine(values: dict[str, float], unit: str = "ms") -> str:
    return f"p50 {values['p50']:.1f}, p95 {values['p95']:.1f}, p99 {values['p99']:.1f} {unit} (n = {values['n']:.0f})"


def ttfas(f: dict[str, Any]) -> list[Row]:
    rows = [
        (
            "time to first audio, heard in Chromium, from the labelled end of speech",
            "p50 ≤ 600, p95 ≤ 850 ms",
            _q(f["ttfas_heard_ms"]),
        ),
        (
            "the same, sent, from the server's own end of speech",
            "",
            _q(f["ttfas_sent_ms_by_the_servers_own_end_of_speech"]),
        ),
        ("turns answered", "all", f"{f['turns_answered']} of {f['turns']}"),
    ]
    rows += [(f"— of it {name}", "", _q(values)) for name, values in f["split_ms"].items()]
    return [*rows, ("jitter buffer of the browser, mean", "", f"{f['browser_jitter_buffer_ms_mean']} ms")]


def overhead(f: dict[str, Any]) -> list[Row]:
    return [
        (
            "server overhead: deciding packet → first submit, plus first sample → packet",
            "p95 ≤ 40 ms",
            _fine(f["server_overhead_ms"]),
        ),
        ("— of it one step of silero", "", _fine(f["vad_step_ms"])),
    ]


def core(f: dict[str, Any]) -> list[Row]:
    parts = f["us_per_session_and_20_ms"]
    rows = [
        (
            f"{f['sessions']} sessions, µs per session and 20 ms: core and actor",
            "≤ 15 µs",
            f"{parts['core and actor']} µs",
        )
    ]
    rows += [(f"— beside it: {part}", "", f"{us} µs") for part, us in parts.items() if part != "core and actor"]
    return rows


_EVENTS = {
    "retrieve": "an item is asked for",
    "create and delete": "an item is made, or deleted again",
    "update": "the session is changed, and told whole",
    "refused": "a cancel of nothing is refused",
    "append": "20 ms of audio come in",
}


def protocol(f: dict[str, Any]) -> list[Row]:
    rows = [
        (
            f"client events a second on one core, {sessions} session(s): {_EVENTS[kind]}", "",
            f"{at['events_per_s_and_core']:,} ({at['us_per_event']} µs each)",
        )
        for sessions in ("1", "100")
        for kind, by_sessions in f["events"].items()
        for at in (by_sessions[sessions],)
    ]  # fmt: skip
    for ms, cost in f["delta_us_by_ms_of_audio"].items():
        shown = f"p50 {cost['p50']:.1f}, p99 {cost['p99']:.1f} µs (n = {cost['n']:.0f})"
        rows.append((f"a delta of {ms} ms of audio: core event → numbered, kept for a resume, JSON text", "", shown))
    return [*rows, ("load average", "", ", ".join(f"{load:.1f}" for load in f["load_average"]))]


def recording(f: dict[str, Any]) -> list[Row]:
    loop, thread, voiced = f["loop_us_per_step"], f["thread"], f["thread_with_voice"]
    return [
        (
            "sessions, minutes of them, steps of a core per second",
            "",
            f"{f['sessions']}, {f['session_minutes']}, {f['steps_per_session_second']}",
        ),
        ("a step of a core that is not recorded, on the loop", "", f"{loop['plain']} µs"),
        ("recorded, it takes longer by", "", f"{loop['added']} µs"),
        ("encoding and writing it, on the recorder's thread", "", f"{thread['us_per_step']} µs"),
        ("file of one session, per minute", "", f"{thread['bytes_per_minute'] / 1000:.0f} kB"),
        (
            "the same with the samples of the voice",
            "",
            f"{voiced['us_per_step']} µs, {voiced['bytes_per_minute'] / 1000:.0f} kB",
        ),
    ]


def barge_in(f: dict[str, Any]) -> list[Row]:
    ms = f["ms"]
    return [
        ("interruptions measured, missed", "200, 0", f"{f['interruptions']}, {f['missed']}"),
        ("labelled onset → VAD onset (detect)", "", _q(ms["detect"])),
        ("→ cut (confirm)", "", _q(ms["confirm"])),
        ("→ the fade's packet (egress)", "p99 ≤ 25 ms", _fine(f["decision_to_packet_ms_by_the_servers_clock"])),
        ("→ silence in the browser's waveform", "p95 ≤ 100 ms", _q(ms["client"])),
        ("labelled onset → last non-silent sample sent", "", _q(ms["to_fade"])),
        ("labelled onset → silence heard", "", _q(ms["to_silence"])),
        ("stale packets after a cut; underruns", "0; 0", f"{f['stale_packets']}; {f['underruns']:.0f}"),
    ]


def barge_in_sim(f: dict[str, Any]) -> list[Row]:
    return [
        ("barge-ins on simulated time", "10,000", f"{f['barge_ins']:,}"),
        (
            "stale payloads on any edge; stale packets",
            "0; 0",
            f"{f['stale_payloads_on_any_edge']}; {f['stale_packets']}",
        ),
        ("audio made and never heard, per cut", "", _fine(f["unheard_audio_s_per_cut"], "s")),
    ]


def _share(figure: dict[str, Any]) -> str:
    return f"{figure['hits']} of {figure['n']}, {figure['percent']} % (95 %: {figure['from']}–{figure['to']})"


def _alone(kinds: dict[str, Any]) -> list[Row]:
    """Turns with nothing before them."""
    rows = [
        (f"spoken in one, {group}: turn ended inside", "", _share(figure["turn_ended_in_pause"]))
        for group, figure in kinds.get("fluent", {}).get("by_group", {}).items()
    ]
    if "fluent" in kinds:
        rows.append(("— end of one → its answer, heard (simulated)", "", _q(kinds["fluent"]["answer_ms"])))
    if "finished" in kinds:
        rows.append(
            ("held-out short turns held for over 1 s for nothing", "", _share(kinds["finished"]["answered_late"]))
        )
        rows.append(("— end of one → its answer, heard (simulated)", "", _q(kinds["finished"]["answer_ms"])))
    return rows


def turn_taking(f: dict[str, Any]) -> list[Row]:
    kinds, goals = f["kinds"], {"cough": "0", "click": "0", "backchannel": "≤ 20 %"}
    real, over_echo = kinds["interruption"], kinds["voice over echo"]
    rows = [
        ("real interruptions silent within 550 ms, heard", "≥ 98 %", _share(real["stopped_in_time"])),
        ("— labelled onset → silence heard", "", _q(real["stop_ms"])),
        ("— missed", "", _share(real["missed"])),
        ("voices 10 dB over an echo of −20 dB, silent within 550 ms", "", _share(over_echo["stopped_in_time"])),
    ]
    for kind in ("backchannel", "cough", "click", "knocks", "typing", "far speaker"):
        rows.append((f"{kind}: false cuts", goals.get(kind, ""), _share(kinds[kind]["false_cuts"])))
    rows.append(("backchannel: withheld, then let go", "", _share(kinds["backchannel"]["false_holds"])))
    for group, figure in kinds["echo"]["by_group"].items():
        rows.append((f"echo {group}: false cuts", "0" if group.startswith("-20") else "", _share(figure["false_cuts"])))
    for kind in ("pause", "held-out pause"):
        for group, figure in kinds.get(kind, {}).get("by_group", {}).items():
            rows.append((f"{kind}, {group}: turn ended in it", "", _share(figure["turn_ended_in_pause"])))
    rows += _alone(kinds)
    rows.append(("end of a question → its answer, heard (simulated)", "", _q(f["answer_ms"])))
    for point in f["curve"]:
        setting = f"{point['confirm']}, {'confirm' if point['confirm'] == 'duration' else 'hold'}_ms = {point['ms']}"
        cut = f"stop p95 {point['stop_ms']['p95']:.0f} ms; backchannels cut {_share(point['backchannel_cut'])}"
        rows.append((f"trade-off: {setting}", "", cut))
    for point in f["patience"]:
        ended = "; ".join(f"{group} {figure['percent']} %" for group, figure in point["ended_in_pause"].items())
        rows.append(
            (
                f"patience: {point['setting']}",
                "",
                f"answer p50 {point['answer_ms']['p50']:.0f} ms; ended in pause: {ended}",
            )
        )
    return rows


def startup(f: dict[str, Any]) -> list[Row]:
    rows = [
        ("`make run`, second start, until ready", "≤ 10 s", ", ".join(f"{s} s" for s in f["make_run_second_start_s"])),
        ("memory with the default models, idle", "", f"{f['local_idle_mb']:.0f} MB"),
        (
            "memory with `sim`, idle; per WebRTC session",
            "",
            f"{f['sim_idle_mb']:.0f} MB; {f['per_webrtc_session_mb']} MB",
        ),
    ]
    if "make_run_from_nothing_s" in f:
        rows.insert(0, ("`make run` from nothing, package caches warm", "", f"{f['make_run_from_nothing_s']} s"))
    return rows


def echo(f: dict[str, Any]) -> list[Row]:
    modes = {
        "aiortc": "plain aiortc (Opus stereo 96 kbit/s, as it comes)",
        "duplex": "duplex, Opus CELT 32 kbit/s mono (the default)",
        "duplex-fec": "duplex, Opus SILK with FEC (under loss)",
    }
    return [
        (f"echo sessions on one core at p95 lateness ≤ 20 ms: {modes[kind]}", "", str(part["sessions_per_core"]))
        for kind, part in f["kinds"].items()
    ]


_AT = ("0.5", "0.8", "0.95", "1.1", "1.3")
"""Shares of fcfs's goodput at which all policies ran."""


def _ratio(value: float, other: float) -> str:
    return f"{value / other:.2f} ×" if other else "–"


def simulator(f: dict[str, Any]) -> list[Row]:
    rows: list[Row] = []
    for trace, result in f.items():
        of = result["policies"]
        listener, fcfs = of["listener"], of["fcfs"]
        how = f"{trace} ({result['seeds']} seeds, {result['sessions_per_run']} sessions a run)"
        for name, policy in of.items():
            low, high = policy["goodput_rps_ci"]
            rows.append(
                (f"{how}: goodput of {name}, sessions/s", "", f"{policy['goodput_rps']:.3f} ({low:.3f} to {high:.3f})")
            )
        goodput = listener["goodput_rps"]
        rows += [
            (f"{trace}: goodput, listener over fcfs", "≥ 1.5 ×", _ratio(goodput, fcfs["goodput_rps"])),
            (f"{trace}: goodput, listener over fcfs_capped", "≥ 1.2 ×", _ratio(goodput, of["fcfs_capped"]["goodput_rps"])),
            (f"{trace}: goodput, listener over oracle", "≥ 0.9 ×", _ratio(goodput, of["oracle"]["goodput_rps"])),
            (
                f"{trace}: answers with a gap over 100 ms at 0.9 of listener's own goodput, all seeds", "0",
                str(listener["long_gaps_at_0.9_of_own"]),
            ),
        ]  # fmt: skip
        for share in _AT:
            p90 = {name: {**p["at"], **p["beyond"]}[share]["ttfas_p90_s"] for name, p in of.items()}
            goal = "fcfs over listener ≥ 1.5 ×" if share == "0.95" else ""
            shown = ", ".join(f"{name} {value:.2f}" for name, value in p90.items())
            rows.append(
                (
                    f"{trace}: TTFAS p90 in s at {share} of fcfs's goodput",
                    goal,
                    f"{shown}; {_ratio(p90['fcfs'], p90['listener'])}",
                )
            )
        idle = result["idle_ttfas_p90_s"]
        above = {name: of[name]["at"]["0.95"]["ttfas_p90_s"] - idle for name in ("fcfs", "listener")}
        rows.append(
            (
                f"{trace}: of that at 0.95, above the {idle:.2f} s that an idle server needs", "",
                f"fcfs {above['fcfs']:.2f}, listener {above['listener']:.2f}; {_ratio(above['fcfs'], above['listener'])}",
            )
        )  # fmt: skip
        fast = f"{result['session_minutes_per_core_minute']:,}"
        rows.append((f"{trace}: session-minutes simulated in a minute of one core", "thousands", fast))
        unheard = {name: p["at"]["0.95"]["unheard_s"] for name, p in of.items()}
        less = 1 - unheard["listener"] / unheard["fcfs"] if unheard["fcfs"] else 0.0
        goal = "listener −90 %" if trace == "interrupted" else ""
        shown = ", ".join(f"{name} {value:.0f}" for name, value in unheard.items())
        rows.append((f"{trace}: audio made and never heard at 0.95, s a run", goal, f"{shown}; −{less:.0%}"))
    return rows


def sim_parameters(f: dict[str, Any]) -> list[Row]:
    return [
        (
            name, "",
            f"goodput fcfs {v['fcfs']['goodput_rps']:.3f}, fcfs_capped {v['fcfs_capped']['goodput_rps']:.3f}, listener"
            f" {v['listener']['goodput_rps']:.3f} ({_ratio(v['listener']['goodput_rps'], v['fcfs']['goodput_rps'])} fcfs); TTFAS p90 at 0.95"
            f" {v['fcfs']['ttfas_p90_s']:.2f} → {v['listener']['ttfas_p90_s']:.2f} s; unheard {v['fcfs']['unheard_s']:.0f} →"
            f" {v['listener']['unheard_s']:.0f} s",
        )
        for name, v in f.items()
    ]  # fmt: skip


def sim_vs_live(f: dict[str, Any]) -> list[Row]:
    live, simulated, off = f["live"], f["simulated"], f["simulated_over_live"]
    rows = [
        (
            f"TTFAS {q} of `{f['trace']}`, {f['talkers']} talkers, model `local`: live, simulated", "within 15 %",
            f"{live['ttfas_s'][q] * 1000:.0f} ms, {simulated['ttfas_s'][q] * 1000:.0f} ms ({off[q]:+.0%})",
        )
        for q in ("p50", "p90")
    ]  # fmt: skip
    return [*rows, ("load average", "", ", ".join(map(str, f["load_average"])))]


def live(f: dict[str, Any]) -> list[Row]:
    rows: list[Row] = []
    for name in ("sim", "local"):
        part = f[name]
        at = part["at_that_load"]
        kind = "`sim`, a test double of no cost: the server itself" if part["test_double"] else f"`{name}`"
        held = part["talkers_at_slo"]
        rows.append(
            (f"most talkers at the SLO, {kind}, {part['server_cores']} core(s)", "", str(held) if held else "none")
        )
        if at:
            overhead_s, ttfas_s = at["server_overhead_s"], at["ttfas_s"]
            rows += [
                ("— server overhead at that load, p95", "≤ 40 ms", f"{overhead_s['p95'] * 1000:.0f} ms"),
                (
                    "— TTFAS at that load",
                    "",
                    f"p50 {ttfas_s['p50']:.2f}, p90 {ttfas_s['p90']:.2f} s (n = {ttfas_s['n']})",
                ),
                (
                    "— sessions that one core of talkers drives per session served",
                    "≥ 3",
                    str(at["sessions_driven_per_session_served"]),
                ),
            ]
        rows.append(("— load average", "", ", ".join(map(str, part["load_average"]))))
    return rows


def admission(f: dict[str, Any]) -> list[Row]:
    guarded, everybody = f["guarded"], f["open"]
    return [
        ("twice what it carries: turns of the admitted within the SLO", "≥ 90 %", f"{guarded['turns_within_slo']:.0%}"),
        ("— the same, were everybody admitted", "", f"{everybody['turns_within_slo']:.0%}"),
        ("calls admitted, refused", "", f"{guarded['calls']['admitted']}, {guarded['calls']['refused']}"),
        ("a refusal takes", "≤ 50 ms", _fine(guarded["refusal_ms"])),
    ]


def plan_cost(f: dict[str, Any]) -> list[Row]:
    goal = {"1000": "≤ 1 ms"}
    return [
        (f"one plan: {name}", goal.get(name.split()[1], ""), f"p50 {v['p50_us']} µs, p95 {v['p95_us']} µs")
        for name, v in f.items()
    ]


def playback_front(f: dict[str, Any]) -> list[Row]:
    made_up = f"{f['concealed_share']:.0%}"
    return [
        (
            f"reported front against the page's AudioWorklet, {f['calls']} calls of {f['replies']} replies: distance",
            "p95 ≤ 30 ms", _fine(f["error_ms"]),
        ),
        ("— all reports, those too where the browser made up sound for late packets", "", _fine(f["error_ms_all_reports"])),
        ("— share of those", "", made_up),
        ("— against the plain clock, what the browser stretched not taken off", "", _fine(f["error_ms_by_the_clock"])),
        ("load average", "", str(f["load_average_at_the_end"])),
    ]  # fmt: skip


_FAULTS = ("raises", "hangs", "slow", "memory")
"""What befalls a stage in the simulated soak."""


def soak_sim(f: dict[str, Any]) -> list[Row]:
    faults, ends = ", ".join(f"{f[kind]} {kind}" for kind in _FAULTS), ("completed", "cancelled", "failed")
    return [
        (
            "sessions on simulated time, every invariant asserted on the way; acts",
            "1,000",
            f"{f['sessions']:,}; {f['acts']:,}",
        ),
        ("faults of stages meanwhile", "", faults),
        ("replies", "", ", ".join(f"{f[f'replies {end}']} {end}" for end in ends)),
        ("wall time", "", f"{f['wall_s']} s"),
    ]


def soak_live(f: dict[str, Any]) -> list[Row]:
    rounds, growth = f["rounds"], f["growth"]
    grown = f"{growth['rss_mb']:+} MB, {growth['open_files']:+}, {growth['threads']:+}, {growth['tasks']:+}"
    broken = f"{f['duplex_stale_packets_total']:.0f}; {f['duplex_invariant_violations_total']:.0f}"
    return [
        (f"rounds of calls, model `{f['model']}`; minutes", "30 min", f"{len(rounds)}; {rounds[-1]['minute']}"),
        ("memory, open files, threads, tasks: growth from the first rounds to the last", "flat", grown),
        ("stale packets; invariants violated", "0; 0", broken),
        ("load average", "", ", ".join(f"{load:.1f}" for load in f["load_average"])),
    ]


def tools(f: dict[str, Any]) -> list[Row]:
    rows = [(f"default thinker, {what}", "", str(f[what])) for what in f if isinstance(f[what], str)]
    timed = [what for what in f if isinstance(f[what], dict)]
    return [*rows, *((what.removesuffix(", ms"), "", _q(f[what])) for what in timed)]


SECTIONS: tuple[tuple[str, str, Callable[[dict[str, Any]], list[Row]]], ...] = (
    ("ttfas", "How long until the answer is heard", ttfas),
    ("barge_in", "How fast an interruption silences the reply", barge_in),
    ("barge_in_sim", "Whether a cut holds", barge_in_sim),
    ("turn_taking", "Who is cut, and who is let finish", turn_taking),
    ("playback_front", "How well the listener's place in a reply is known", playback_front),
    ("overhead", "What the server adds", overhead),
    ("core", "What the core costs", core),
    ("protocol", "What the protocol costs", protocol),
    ("recording", "What recording costs", recording),
    ("echo", "What the audio path carries", echo),
    ("plan_cost", "What the scheduler costs", plan_cost),
    ("admission", "What is refused, and what that saves", admission),
    ("live", "How many calls", live),
    ("sim_vs_live", "The simulator against reality", sim_vs_live),
    ("simulator", "Policies, simulated (large profile)", simulator),
    ("sim_parameters", "What is not published, swept (simulated, large profile, trace `interrupted`)", sim_parameters),
    ("tools", "How well the default model calls functions", tools),
    ("startup", "Start and memory", startup),
    ("soak_sim", "A thousand sessions with faults", soak_sim),
    ("soak_live", "Half an hour of calls", soak_live),
)


def render() -> str:
    """Return the page."""
    lines = [HEAD]
    for name, title, rows in SECTIONS:
        path = RESULTS / f"{name}.json"
        if not path.exists():
            lines.append(f"\n## {title}\n\nNot measured.")
            continue
        result = json.loads(path.read_text())
        machine = result["machine"]
        lines += [
            f"\n## {title}\n",
            f"`{result['command'].strip()}`, commit {result['commit']}, {result['date']}, {machine['cores']} cores of {machine['cpu']}\n",
            "| what | goal | measured |",
            "| --- | --- | --- |",
            *(f"| {what} | {goal} | {measured} |" for what, goal, measured in rows(result["figures"])),
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render())
