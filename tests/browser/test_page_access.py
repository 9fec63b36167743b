"""The page of a server with keys: asks for one once, keeps what it gets for it, and never the key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from browser_harness import Open, Serve
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

KEY = "key-SECRET123-SECRET123"


def test_a_key_is_shown_once_and_not_kept(serve: Serve, visit: Open, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"app={KEY}\n")
    server = serve(script=["Paris is mild."], server={"api_keys_file": str(keys)})
    seen = visit(server)
    dialog = seen.page.get_by_test_id("access")
    expect(dialog).to_be_visible()
    box = seen.page.get_by_test_id("access-key")
    box.fill("key-0000000000000000")
    seen.page.get_by_test_id("access-submit").click()
    expect(dialog).to_contain_text("does not take this key")
    box.fill(KEY)
    seen.page.get_by_test_id("access-submit").click()
    expect(dialog).not_to_be_visible()
    expect(seen.page.get_by_test_id("test-double")).to_be_visible()
    stored = str(seen.page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie])"))
    assert re.search(r"ek_[0-9A-Za-z_-]{40,}", stored)
    assert KEY not in stored + seen.page.content() + box.input_value()
    seen.page.reload()
    expect(seen.page.get_by_test_id("test-double")).to_be_visible()
    expect(dialog).not_to_be_visible()
    seen.page.get_by_test_id("text").fill("How is Paris?")
    seen.page.get_by_test_id("send").click()
    expect(seen.page.get_by_test_id("captions")).to_contain_text("Paris is mild.", timeout=30_000)
    assert KEY not in "".join(server.output)
    # The browser notes each refused request on its console: without a secret, and with the wrong key.
    assert [line for line in seen.complaints if "401" not in line] == []
    assert seen.foreign == []


def test_the_page_works_over_tls(serve: Serve, visit: Open, tmp_path: Path) -> None:
    server = serve(script=["Paris is mild."], server={"tls": True, "tls_dir": str(tmp_path / "tls")})
    assert server.url.startswith("https://")
    seen = visit(server, ignore_https_errors=True)
    assert seen.page.evaluate("isSecureContext")
    seen.page.get_by_test_id("text").fill("How is Paris?")
    seen.page.get_by_test_id("send").click()
    expect(seen.page.get_by_test_id("captions")).to_contain_text("Paris is mild.", timeout=30_000)
    assert (seen.complaints, seen.foreign) == ([], [])


def test_who_has_no_key_can_ask_again_for_the_dialog(serve: Serve, visit: Open, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"app={KEY}\n")
    seen = visit(serve(server={"api_keys_file": str(keys)}))
    dialog = seen.page.get_by_test_id("access")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).not_to_be_visible()
    seen.page.get_by_test_id("text").fill("How is Paris?")
    seen.page.get_by_test_id("send").click()
    expect(seen.page.get_by_test_id("notice")).to_contain_text("This server asks for a key")
    seen.page.get_by_test_id("notice-key").click()
    expect(dialog).to_be_visible()
    expect(seen.page.get_by_test_id("text")).to_have_value("How is Paris?")
