"""`loadgen sim`: traces against policies on a profile."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from duplex.config import Settings
from loadgen import trace
from loadgen.report.html import render
from loadgen.sim import faults
from loadgen.sim.network import Network
from loadgen.sim.profile import Profile, load
from loadgen.sim.sweep import Plan, describe, measures, sweep, with_interval
from loadgen.sim.world import Options, Slo, World

POLICIES = ("fcfs", "fcfs_capped", "round_robin", "chunk_deadline", "listener", "oracle")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommand's options."""
    parser.add_argument("trace", type=Path, help="a file, or the name of a trace that comes with the project")
    parser.add_argument("--profile", default="large", help="name, or path of a .toml (default: large)")
    parser.add_argument("--policies", default=",".join(POLICIES), help="comma-separated; the first is the reference")
    parser.add_argument(
        "--sweep", action="store_true", help="find each policy's goodput, then compare at the same loads"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sessions", type=int, default=60, help="sessions of the trace in each run (default: 60)")
    parser.add_argument("--rate", type=float, help="sessions per second, without --sweep (default: the trace's times)")
    parser.add_argument("--concurrency", type=int, default=0, help="closed loop: so many sessions at once")
    parser.add_argument("--slo-ttfas", type=float, default=1.0, help="seconds (default: 1)")
    parser.add_argument("--slo-gap", type=float, default=0.1, help="longest gap in seconds (default: 0.1)")
    parser.add_argument("--slo-share", type=float, default=0.9, help="of turns that have to meet both (default: 0.9)")
    parser.add_argument("--kv", choices=("keep", "lru", "next_use"), default="keep")
    parser.add_argument("--kv-tokens", type=int, help="tokens of context that fit (default: the profile's)")
    parser.add_argument("--network", default="", metavar="KEY=VALUE,…", help=f"of {', '.join(Network.model_fields)}")
    parser.add_argument("--fault", action="append", default=[], metavar="KIND[:STAGE]@S[+S]", help="may be repeated")
    parser.add_argument("--no-admission", action="store_true", help="admit everybody")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="a setting of the server"
    )
    parser.add_argument(
        "--set-profile", action="append", default=[], metavar="PART.KEY=VALUE", help="a figure of the profile"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, help="where the result goes")
    parser.add_argument("--html", type=Path, help="where the report goes")
    parser.set_defaults(run=run)


def make_plan(arguments: argparse.Namespace) -> Plan:
    """Check the options and return what is to be simulated.

    Raises:
        ValueError: one is wrong; the message names it.
    """
    policies = tuple(arguments.policies.split(","))
    for policy in policies:
        if policy not in POLICIES:
            raise ValueError(f"--policies: {policy!r} is none of {', '.join(POLICIES)}")
    for name in ("seeds", "sessions", "workers"):
        if getattr(arguments, name) < 1:
            raise ValueError(f"--{name}: at least 1")
    if arguments.concurrency < 0:
        raise ValueError("--concurrency: not negative")
    if arguments.rate is not None and arguments.rate <= 0:
        raise ValueError("--rate: more than 0")
    read = trace.read(arguments.trace)
    settings = _settings(arguments.set)
    options = Options(
        network=_model(Network, dict(_pair(p, "--network") for p in arguments.network.split(",") if p), "--network"),
        slo=_model(Slo, {"ttfas_s": arguments.slo_ttfas, "gap_s": arguments.slo_gap, "share": arguments.slo_share}, "--slo"),
        kv=arguments.kv, kv_tokens=arguments.kv_tokens, admission=not arguments.no_admission,
        faults=tuple(map(faults.parse, arguments.fault)), settings=settings,
    )  # fmt: skip
    profile = _profile(load(arguments.profile), arguments.set_profile)
    sessions = min(arguments.sessions, len(read.sessions))
    return Plan(
        trace=read, profile=profile, policies=policies, seeds=arguments.seeds, sessions=sessions, options=options
    )


def run(arguments: argparse.Namespace) -> int:
    """Simulate, print, and write what is asked for."""
    plan = make_plan(arguments)
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as bar:
        task = bar.add_task("")

        def progress(what: str, done: int, of: int) -> None:
            bar.update(task, description=what, completed=done, total=of)

        policies = sweep(plan, arguments.workers, progress) if arguments.sweep else _once(plan, arguments, progress)
    result = {"duplex_result": 1, "kind": "sim", "command": " ".join(["loadgen", *sys.argv[1:]]), **describe(plan)}
    result["policies"] = policies
    _print(plan, policies, arguments.sweep)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if arguments.html is not None:
        arguments.html.write_text(render([result]), encoding="utf-8")
    return 0


def _once(plan: Plan, arguments: argparse.Namespace, progress: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Run each policy as the trace stands, or at one rate or concurrency."""
    found: dict[str, Any] = {}
    for policy in plan.policies:
        runs = []
        for seed in range(1, plan.seeds + 1):
            progress(policy, seed - 1, plan.seeds)
            sessions = (
                plan.trace.sessions[: plan.sessions] if arguments.rate is None else plan.draw(arguments.rate, seed)
            )
            world = World(plan.profile, policy, plan.options, seed)
            runs.append(measures(world.run(sessions, concurrency=arguments.concurrency), plan.options))
        found[policy] = {}
        for name in runs[0]:
            found[policy] |= with_interval(name, [each[name] for each in runs])
    return found


def _print(plan: Plan, policies: dict[str, Any], swept: bool) -> None:
    columns = ["goodput_rps"] if swept else []
    shown = ("ttfas_p50_s", "ttfas_p90_s", "underruns", "underrun_s", "unheard_s", "refused")
    table = Table(title=f"{plan.trace.header.name} on {plan.profile.name} (simulated)")
    table.add_column("policy")
    for name in (*columns, *(("good",) if not swept else ()), *shown):
        table.add_column(name + (" @0.95" if swept and name not in columns else ""), justify="right")
    for policy, of in policies.items():
        at = of["at"]["0.95"] if swept else of
        names = (*(() if swept else ("good",)), *shown)
        table.add_row(policy, *(_cell(of, name) for name in columns), *(_cell(at, name) for name in names))
    Console().print(table)


def _cell(of: dict[str, Any], name: str) -> str:
    value, ci = of[name], of[f"{name}_ci"]
    return "–" if value is None else f"{value:.3g} ±{(ci[1] - ci[0]) / 2:.2g}"


def _pair(text: str, option: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{option} {text!r}: expected NAME=VALUE")
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name, value


def _nested(pairs: list[str], option: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in pairs:
        path, value = _pair(text, option)
        *parts, last = path.split(".")
        inner = found
        for part in parts:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return found


def _settings(pairs: list[str]) -> dict[str, Any]:
    settings = _nested(pairs, "--set")
    _model(Settings, settings, "--set")
    return settings


def _profile(profile: Profile, pairs: list[str]) -> Profile:
    if not pairs:
        return profile
    merged = _merge(profile.model_dump(), _nested(pairs, "--set-profile"))
    merged["name"] = f"{profile.name} ({', '.join(pairs)})"
    changed: Profile = _model(Profile, merged, "--set-profile")
    return changed


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        inner = merged.get(key)
        merged[key] = _merge(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return merged


def _model(kind: Any, values: dict[str, Any], option: str) -> Any:
    try:
        return kind(**values)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{option}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
