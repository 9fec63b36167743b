"""Where tests leave what was heard and answered, for a person to read: test-results/NAME.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parents[2] / "test-results"


def keep(name: str, result: Any) -> None:
    """Write a result that JSON can hold."""
    _FOLDER.mkdir(exist_ok=True)
    (_FOLDER / f"{name}.json").write_text(json.dumps(result, indent=2, ensure_ascii=False))
