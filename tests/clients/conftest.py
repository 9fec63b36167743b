"""The programs' runs: those that were selected are started together."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import NoReturn

import pytest

from tests.clients.client_runs import HERE, VENV_PYTHON, Pack, Runs
from tests.clients.clients import CLIENTS, Client


def _left_out(reason: str) -> NoReturn:
    """Say loudly that a test could not run; in CI that is a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"left out, and CI may leave nothing out: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The selected programs' reports."""
    if not VENV_PYTHON.exists() or not (HERE / "node_modules").is_dir() or shutil.which("node") is None:
        _left_out("the clients are not installed: make clients")
    wanted: dict[Pack, list[Client]] = {"sim": [], "local": []}
    for item in request.session.items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        if isinstance(params.get("client"), Client):
            wanted[params["pack"]].append(params["client"])
        elif item.get_closest_marker("every_client") is not None:
            wanted = {pack: list(CLIENTS) for pack in wanted}
            break
    running = Runs(tmp_path_factory.mktemp("clients"), wanted)
    yield running
    running.stop()
