"""The subcommand `compare`: results side by side, as text and as a page."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from loadgen.report.figures import Result
from loadgen.report.html import render
from loadgen.report.table import table


def add_options(parser: argparse.ArgumentParser) -> None:
    """Give the parser of `loadgen compare` its options."""
    parser.add_argument(
        "results", nargs="+", type=Path, metavar="RESULT", help="files of --json, of live or sim; two or more"
    )
    parser.add_argument("--html", type=Path, help="write the page here")
    parser.set_defaults(run=compare)


def compare(arguments: argparse.Namespace) -> int:
    """Run `loadgen compare`; ValueError for files that are no results."""
    if len(arguments.results) < 2:
        raise ValueError("compare takes two result files or more")
    results = [read(path) for path in arguments.results]
    stems = [path.stem for path in arguments.results]
    for path, result in zip(arguments.results, results, strict=True):
        result["name"] = path.stem if stems.count(path.stem) == 1 else str(path)
    sys.stdout.write(table(results))
    if arguments.html is not None:
        arguments.html.write_text(render(results), encoding="utf-8")
    return 0


def read(path: Path) -> Result:
    """Read a result file.

    Raises:
        ValueError: it cannot be read, or is no result of a version that is known.
    """
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
    if not isinstance(result, dict) or result.get("duplex_result") != 1 or result.get("kind") not in ("live", "sim"):
        raise ValueError(f"{path}: not a result of loadgen of version 1")
    return result
