"""The table of docs/clients.md: which client passed what."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from tests.browser.browser_harness import ROOT
from tests.clients.client_runs import HERE, Pack, Report
from tests.clients.clients import CLIENTS, STEPS, Client

PAGE = ROOT / "docs" / "clients.md"
_BEGIN, _END = "<!-- table: written by the test run -->\n", "<!-- end of table -->\n"
_PINNED = (ROOT / "requirements" / "clients.txt", ROOT / "requirements" / "dev.txt")


def version_of(client: Client) -> str:
    """Return the version that is pinned."""
    if client.language == "npm":
        version: str = json.loads((HERE / "package.json").read_text())["devDependencies"][client.package]
        return version
    lines = [line for path in _PINNED for line in path.read_text().splitlines()]
    return next(line.split("==")[1] for line in lines if line.startswith(f"{client.package}=="))


def table(report: Callable[[Client, Pack], Report]) -> str:
    """Return the table as Markdown.

    Args:
        report: of a client with a pack.
    """
    columns = ["client", "used", *STEPS, "more", "with the default model"]
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    for client in CLIENTS:
        done = report(client, "sim")
        marks = ["–" if step in client.lacks else "✓" if done.passed(step) else "✗" for step in STEPS]
        if client.program == "pipecat_service":
            marks[STEPS.index("configure")] = marks[STEPS.index("text turn")]  # it does both in one
        more = [o.step if o.ok else f"{o.step} ✗" for o in done.outcomes if o.step not in STEPS]
        local = report(client, "local")
        talked = "✗" if local.problems else "✓"
        kind = "" if client.language == "python" else " (npm)"
        name = f"{client.package} {version_of(client)}{kind}"
        lines.append(f"| {name} | {client.way} | {' | '.join(marks)} | {', '.join(more)} | {talked} |")
    return "\n".join(lines) + "\n"


def written() -> str:
    """Return the table as it stands in the docs."""
    return re.split(f"{re.escape(_BEGIN)}|{re.escape(_END)}", PAGE.read_text())[1]


def write(new: str) -> None:
    """Put a table into the docs."""
    before, _, after = re.split(f"{re.escape(_BEGIN)}|{re.escape(_END)}", PAGE.read_text())
    PAGE.write_text(f"{before}{_BEGIN}{new}{_END}{after}")
