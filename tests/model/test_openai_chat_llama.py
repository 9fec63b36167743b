"""The thinker of `openai_chat` on a server that others wrote: llama.cpp's own, with the small model of `local`."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import xllamacpp
from duplex_models.local import weights
from duplex_models.local.options import SYSTEM_PROMPT
from duplex_models.openai_chat.options import parse
from duplex_models.openai_chat.think import RemoteThink

from duplex.stages.contract import PackError
from loadgen.jobs import job
from tests.model.harness import CEILING_S, Answer, prompt

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Serve one reply at a time; yields the base URL and the file that holds the key."""
    key = tmp_path_factory.mktemp("llama") / "key"
    key.write_text(secrets.token_hex(16) + "\n")
    params = xllamacpp.CommonParams()
    params.model.path = str(weights.verified(weights.SMOLLM2))
    params.n_ctx, params.n_parallel, params.n_gpu_layers = 2048, 1, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.hostnames, params.api_keys, params.verbosity = ["127.0.0.1"], [key.read_text().strip()], -1
    server = xllamacpp.Server(params)
    yield f"{server.listening_address}/v1", key


@pytest.fixture
def think(address: tuple[str, Path]) -> Iterator[RemoteThink]:
    url, key = address
    options: dict[str, Any] = {
        "url": url,
        "model": "any",
        "key_file": str(key),
        "check": False,
        "first_text_timeout_s": 25,
    }
    options |= {"system_prompt": SYSTEM_PROMPT, "extra_body": {"temperature": 0}}
    thinker = RemoteThink(parse(options))
    thinker.load(lambda line: None)
    yield thinker
    thinker.close()


def test_a_reply_comes_with_the_servers_count_of_tokens(think: RemoteThink) -> None:
    answer = Answer()
    think.submit(job(prompt("What is the capital of France?")), answer.emit)
    assert "Paris" in answer.wait().text
    assert answer.deltas[-1].finish == "stop"
    assert sum(delta.tokens for delta in answer.deltas) >= len(answer.deltas) - 1


def test_a_reply_ends_at_its_bound(think: RemoteThink) -> None:
    answer = Answer()
    think.submit(job(prompt("Tell me a long story.", tokens_max=8)), answer.emit)
    assert answer.wait().deltas[-1].finish == "length"


def test_a_cut_frees_the_servers_only_slot(think: RemoteThink) -> None:
    begun = threading.Event()
    story, cut = job(prompt("Tell me a very long story about a mouse.", tokens_max=1500)), Answer()
    cut.on_delta = lambda count: begun.set() if count == 3 else None
    think.submit(story, cut.emit)
    assert begun.wait(CEILING_S)
    think.abort(story.id)
    cut_at = time.monotonic()
    emitted = len(cut.deltas)
    answer = Answer()
    think.submit(job(prompt("What is the opposite of hot?"), "other"), answer.emit)
    assert "cold" in answer.wait().text.lower()
    assert time.monotonic() - cut_at < 10  # 1500 tokens take 15 s on a quiet core
    assert len(cut.deltas) == emitted


def test_a_wrong_key_and_a_wrong_model_stop_the_start(address: tuple[str, Path], tmp_path: Path) -> None:
    url, key = address
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong")
    for path, says in ((wrong, "refuses the key|has no any"), (key, "has no any; it has ")):
        thinker = RemoteThink(parse({"url": url, "model": "any", "key_file": str(path)}))
        with pytest.raises(PackError, match=says):
            thinker.load(lambda line: None)
        thinker.close()
