"""The page of the figures says what the results say, and says it of all of them."""

from __future__ import annotations

import pytest

from benchmarks.report import RESULTS
from benchmarks.table import PAGE, SECTIONS, render

pytestmark = pytest.mark.unit


def test_the_page_of_the_figures_is_fresh() -> None:
    assert PAGE.read_text() == render(), "run: python -m benchmarks.table"


def test_every_result_is_on_the_page() -> None:
    assert {path.stem for path in RESULTS.glob("*.json")} <= {name for name, _, _ in SECTIONS}
