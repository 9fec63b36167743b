"""Results side by side in text."""

from __future__ import annotations

from collections.abc import Sequence

from loadgen.report.figures import Figure, Result, figures, name, shown


def rows(results: Sequence[Result]) -> list[list[str]]:
    """Return a header and one row per figure: label, each result's value, and for two or more how the last differs from the first."""
    listed = [{figure.label: figure for figure in figures(result)} for result in results]
    labels = list(dict.fromkeys(label for one in listed for label in one))
    header = ["", *(name(result) for result in results)]
    several = len(results) > 1
    if several:
        header.append("difference" if len(results) == 2 else "last − first")
    table = [header]
    for label in labels:
        cells = [one.get(label) for one in listed]
        row = [label, *(cell.text if cell is not None else "–" for cell in cells)]
        if several:
            row.append(_difference(cells[0], cells[-1]))
        table.append(row)
    return table


def table(results: Sequence[Result]) -> str:
    """Return the rows in columns, and the warnings under them."""
    listed = rows(results)
    if len(results) == 1:
        listed = listed[1:]
    widths = [max(len(row[column]) for row in listed) for column in range(len(listed[0]))]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in listed
    ]
    for result in results:
        lead = f"{name(result)}: " if len(results) > 1 else ""
        lines += [f"! {lead}{warning}" for warning in result.get("warnings", ())]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _difference(first: Figure | None, last: Figure | None) -> str:
    if (
        first is None
        or last is None
        or not isinstance(first.value, int | float)
        or not isinstance(last.value, int | float)
    ):
        return ""
    change = last.value - first.value
    if not change:
        return "="
    if first.unit == "%":
        return f"{100 * change:+.1f} points"
    sign = "+" if change > 0 else "−"
    text = f"{sign}{shown(abs(change), first.unit)}"
    return f"{text} ({100 * change / first.value:+.0f} %)" if first.value else text
