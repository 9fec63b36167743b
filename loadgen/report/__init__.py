"""Reports on result files: one self-contained HTML page, and a table in text, for one result or several side by side."""

from loadgen.report.html import render
from loadgen.report.table import table

__all__ = ["render", "table"]
