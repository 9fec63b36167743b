"""The command `loadgen`: one subcommand per thing it does."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from loadgen import generate, trace
from loadgen.calibrate.command import add_options as add_calibrate_options
from loadgen.live.command import add_options as add_live_options
from loadgen.report.compare import add_options as add_compare_options
from loadgen.sim.command import add_options as add_sim_options


def main(argv: list[str] | None = None) -> int:
    """Run a subcommand; bad input answers one line on stderr and 2."""
    parser = argparse.ArgumentParser(prog="loadgen", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_trace(commands)
    _add_live(commands)
    _add_compare(commands)
    _add_calibrate(commands)
    _add_sim(commands)
    arguments = parser.parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except (trace.TraceError, ValueError) as error:
        print(f"loadgen: {error}", file=sys.stderr)
        return 2


def _add_live(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    add_live_options(commands.add_parser("live", help="hold a trace's conversations with a running server"))


def _add_compare(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    add_compare_options(commands.add_parser("compare", help="put result files side by side"))


def _add_calibrate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    add_calibrate_options(commands.add_parser("calibrate", help="measure a model pack for the simulator"))


def _add_sim(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    add_sim_options(commands.add_parser("sim", help="simulate a trace on the server's own scheduler"))


def _add_trace(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("trace", help="make a trace from a recipe")
    parser.add_argument("recipe", choices=sorted(generate.RECIPES))
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, help="sessions per second (default: the recipe's)")
    parser.add_argument("--cv", type=float, help="burstiness of arrivals: 1 is Poisson (default: the recipe's)")
    parser.add_argument("--out", type=Path, help="file (default: stdout)")
    parser.set_defaults(run=_trace)


def _trace(arguments: argparse.Namespace) -> int:
    recipe = generate.RECIPES[arguments.recipe]
    if arguments.rate is not None:
        recipe = replace(recipe, rate=arguments.rate)
    if arguments.cv is not None:
        recipe = replace(recipe, cv=arguments.cv)
    text = "\n".join(trace.dump(generate.generate(recipe, arguments.sessions, arguments.seed))) + "\n"
    if arguments.out is None:
        sys.stdout.write(text)
        return 0
    try:
        arguments.out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{arguments.out}: {error.strerror}") from error
    return 0


if __name__ == "__main__":
    sys.exit(main())
