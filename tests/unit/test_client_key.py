"""The key that the commands bring, and that it is shown by nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from duplex.client_key import headers_of, read_key
from duplex.config import ConfigError, load
from duplex.talk import TalkOptions
from loadgen.live.options import LiveOptions
from loadgen.live.worker import options_from_json

pytestmark = pytest.mark.unit

KEY = "key-0123456789abcdef"


def test_the_file_wins_over_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    assert read_key(file, {"DUPLEX_API_KEY": "other"}) == KEY
    assert read_key(None, {"DUPLEX_API_KEY": KEY}) == KEY
    assert read_key(None, {}) is None
    assert headers_of(KEY) == {"Authorization": f"Bearer {KEY}"}
    assert headers_of(None) == {}


@pytest.mark.parametrize("content", [b"", b"\n", b"one\ntwo", b"a key", "schl\u00fcssel".encode(), b"\xff"])
def test_what_is_no_key_is_told_without_showing_it(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as error:
        read_key(file, {})
    assert str(error.value).startswith(str(file))
    assert "one\ntwo" not in str(error.value)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_key(tmp_path / "none", {})


def test_the_variable_is_no_setting_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUPLEX_API_KEY", KEY)
    assert KEY not in repr(load())
    monkeypatch.setenv("DUPLEX_API_KEYS", KEY)
    with pytest.raises(ConfigError, match="unknown environment setting: DUPLEX_API_KEYS"):
        load()


def test_no_result_and_no_dump_holds_the_key() -> None:
    options = LiveOptions(url="http://127.0.0.1:1", key=KEY)
    assert KEY not in json.dumps(options.to_json()) + repr(options)
    assert options_from_json(json.loads(json.dumps(options.to_json())), KEY) == options
    assert KEY not in repr(TalkOptions(recording=np.zeros(1, np.int16), url="", key=KEY))
