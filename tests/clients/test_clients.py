"""Unmodified client packages against the real server: behind a key and TLS, as they meet it in production."""

from __future__ import annotations

import os

import pytest

from tests.clients import client_table
from tests.clients.client_runs import Pack, Runs
from tests.clients.clients import CLIENTS, Client

pytestmark = [pytest.mark.clients, pytest.mark.timeout(400)]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.id)
@pytest.mark.parametrize("pack", ["sim", "local"])
def test_a_stock_client(runs: Runs, client: Client, pack: Pack) -> None:
    problems = runs.of(client, pack).problems
    assert not problems, problems


@pytest.mark.every_client
def test_the_table_in_the_docs_says_what_came_out(runs: Runs) -> None:
    table = client_table.table(runs.of)
    if os.environ.get("CI") != "true" and table != client_table.written():
        client_table.write(table)
    assert table == client_table.written(), "docs/clients.md says something else; `make clients` writes it"
