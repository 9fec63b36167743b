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
them by `python -m benchmarks.table`. `make bench` measures everything anew (about 25 minutes). The machines are small, shared and
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
            "p50 ≤ 800 ms",
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


SECTIONS: tuple[tuple[str, str, Callable[[dict[str, Any]], list[Row]]], ...] = (
    ("ttfas", "How long until the answer is heard", ttfas),
    ("barge_in", "How fast an interruption silences the reply", barge_in),
    ("barge_in_sim", "Whether a cut holds", barge_in_sim),
    ("overhead", "What the server adds", overhead),
    ("core", "What the core costs", core),
    ("echo", "What the audio path carries", echo),
    ("startup", "Start and memory", startup),
)


def main() -> None:
    lines = [HEAD]
    for name, title, rows in SECTIONS:
        result = json.loads((RESULTS / f"{name}.json").read_text())
        machine = result["machine"]
        lines += [
            f"\n## {title}\n",
            f"`{result['command'].strip()}`, commit {result['commit']}, {result['date']}, {machine['cores']} cores of {machine['cpu']}\n",
            "| what | goal | measured |",
            "| --- | --- | --- |",
            *(f"| {what} | {goal} | {measured} |" for what, goal, measured in rows(result["figures"])),
        ]
    PAGE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
