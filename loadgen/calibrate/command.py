"""The subcommand: measure, fit, show, write."""

from __future__ import annotations

import argparse
import os
import platform
import random
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from duplex.cli import load_pack
from duplex.config import ConfigError, ModelSettings, Settings
from duplex.stages.contract import ModelPack, PackError
from loadgen.calibrate.answers import listen_to_answers
from loadgen.calibrate.context import measure_context
from loadgen.calibrate.fit import Fitted
from loadgen.calibrate.hearing import Heard, listen
from loadgen.calibrate.material import Spoken, question, spoken, words_of
from loadgen.calibrate.parallel import measure_parallel
from loadgen.calibrate.probes import (
    FULL,
    PREFILL,
    QUICK,
    TURN_TOKENS,
    Sizes,
    ear_probes,
    measure,
    think_probes,
    voice_probes,
)
from loadgen.calibrate.result import Calibration, fit_costs, profile_of
from loadgen.calibrate.stages import CalibrationError, Stages, conversation
from loadgen.calibrate.toml import render
from loadgen.live import speech
from loadgen.sim.profile import PROFILES

_SEED = 1
_LEAST_S, _SPREAD_S = 0.8, 4.0
"""Lengths of the turns that are heard."""
_PAUSE_S = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A calibration and how it came about."""

    calibration: Calibration
    took_s: float
    load_average: tuple[float, float]
    """Of the last minute, as it began and as it ended."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommand's options."""
    parser.add_argument("--pack", default="local", help="model pack (default: local)")
    parser.add_argument("--out", type=Path, help="profile to write (default: the project's own of the pack's name)")
    parser.add_argument("--quick", action="store_true", help="a rough one, in under 20 seconds")
    parser.add_argument("--threads", type=int, help="thread budget of the pack (default: the machine's cores)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Calibrate and write the profile.

    Raises:
        CalibrationError: the pack cannot be loaded or measured.
    """
    threads = arguments.threads or os.cpu_count() or 1
    out = arguments.out or PROFILES / f"{arguments.pack}.toml"
    try:
        pack = load_pack(Settings(model=ModelSettings(pack=arguments.pack), threads=threads))
        outcome = calibrate(pack, threads, QUICK if arguments.quick else FULL)
    except (ConfigError, PackError) as error:
        raise CalibrationError(str(error)) from error
    text = render(profile_of(outcome.calibration, source_of(outcome)), heading_of(outcome, arguments.quick))
    out.write_text(text, encoding="utf-8")
    lines = [*table(outcome.calibration.fits), f"wrote {out} ({outcome.took_s:.0f} s)"]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def calibrate(pack: ModelPack, threads: int, sizes: Sizes) -> Outcome:
    """Load a pack, measure it and fit its costs.

    Raises:
        CalibrationError: it cannot be measured.
        PackError: it cannot be loaded.
    """
    began, load_before = time.perf_counter(), os.getloadavg()[0]
    rng = random.Random(_SEED)
    bank = speech.load(())
    stages = Stages(pack, _progress)
    try:
        said = listen_to_answers(stages, sizes.answers, rng)

        def turn(seconds: float) -> Spoken:
            return spoken(bank, seconds, rng, silence_s=0.0)

        probes = [
            *ear_probes(stages, sizes, turn),
            *think_probes(stages, sizes, said.tokens_per_word, rng),
            *voice_probes(stages, sizes, said.texts, rng),
        ]
        measured = measure(probes, sizes.rounds, rng, _progress)
        fits = fit_costs(measured)
        heard = _hear(stages, bank, sizes.turns, rng)
        _progress("measuring long contexts")
        context = measure_context(stages, sizes.context, sizes.rounds, said.tokens_per_word, TURN_TOKENS, rng)
        _progress("measuring stages at once")
        parallel = measure_parallel(
            stages, threads, words_of(said.texts, 15, rng), turn(_LEAST_S + _SPREAD_S / 2),
            [conversation(question(8, rng), tokens_max=2) for _ in range(4 * sizes.rounds)], fits[PREFILL].cost.cores,
            sizes.parallel_s,
        )  # fmt: skip
    finally:
        stages.close()
    calibration = Calibration(
        pack=pack, threads=threads, fits=fits, heard=heard, parallel=parallel, context=context, said=said,
    )  # fmt: skip
    return Outcome(
        calibration=calibration, took_s=time.perf_counter() - began, load_average=(load_before, os.getloadavg()[0])
    )


def _hear(stages: Stages, bank: speech.Bank, turns: int, rng: random.Random) -> Heard:
    _progress("hearing turns end")
    lengths = [_LEAST_S + _SPREAD_S * (n + 0.5) / turns for n in range(turns)]
    return listen(
        stages,
        [spoken(bank, round(length, 2), rng) for length in lengths],
        [spoken(bank, round(max(length, 2.0), 2), rng, pause_s=_PAUSE_S) for length in lengths],
    )


def _progress(line: str) -> None:
    sys.stderr.write(line + "\n")


def table(fits: dict[str, Fitted]) -> list[str]:
    """Return what was measured beside what the costs say, a line each."""
    lines = [f"{'step':<44} {'measured':>10} {'fitted':>10} {'error':>7}"]
    for part, fitted in fits.items():
        lines.append(part)
        for sample in fitted.samples:
            ms, error = fitted.cost.seconds(sample.units) * 1000, fitted.error(sample)
            lines.append(f"  {sample.label:<42} {sample.ms:>7.1f} ms {ms:>7.1f} ms {error:>+7.0%}")
    return lines


def source_of(outcome: Outcome) -> str:
    """Return the profile's `source`: pack, machine, date."""
    calibration, day = outcome.calibration, datetime.now(UTC).date().isoformat()
    return (
        f"Measured by `loadgen calibrate` on {day}: model pack {calibration.pack.name}, {calibration.threads} of "
        f"{os.cpu_count()} cores of {_cpu()}; load average {outcome.load_average[0]:.1f} to {outcome.load_average[1]:.1f}."
    )


def heading_of(outcome: Outcome, quick: bool) -> str:
    """Return the comment above the profile: the command, and how well the costs fit."""
    command = f"loadgen calibrate --pack {outcome.calibration.pack.name}{' --quick' if quick else ''}"
    errors = ", ".join(f"{part} {fitted.error_max:.0%}" for part, fitted in outcome.calibration.fits.items())
    return f"Written by `{command}`; do not edit.\nLargest errors of the fits: {errors}."


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":")[1].strip()
    except OSError:
        return platform.machine()  # no Linux
    return platform.processor() or platform.machine()
