"""An image in an item, read with the real weights: its words are in the thinker's prompt, and in no other's."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from functools import partial
from typing import Any

import cv2
import numpy as np
import pytest
from aiohttp import ClientSession
from duplex_models.local.read import Read
from duplex_models.sim import SimOptions, make

from duplex.actor.host import SessionHost
from duplex.config import load
from duplex.server.serve import listening
from duplex.stages.contract import Role
from duplex.telemetry import Observer

pytestmark = [pytest.mark.model, pytest.mark.alone]
CEILING_S = 60.0


def page(*lines: str, width: int = 1600, height: int = 1200) -> str:
    """Return a data URL of a white page with small dark print on it."""
    bgr = np.full((height, width, 3), 245, np.uint8)
    for i, line in enumerate(lines):
        place = (width // 8, height // 4 + 80 * i)
        cv2.putText(bgr, line, place, cv2.FONT_HERSHEY_SIMPLEX, 1.0, (20, 20, 20), 2, cv2.LINE_AA)
    _, png = cv2.imencode(".png", bgr)
    return f"data:image/png;base64,{base64.b64encode(png.tobytes()).decode()}"


@pytest.mark.parametrize("processes", [[], ["read"]], ids=["thread", "process"])
async def test_nonsense_words_in_a_png_are_in_the_thinkers_prompt(processes: list[str]) -> None:
    settings = load(
        server={"port": 0, "close_timeout_s": 1.0}, conversation={"image_wait_ms_max": 30_000},
        stages={"processes": processes},
    )  # fmt: skip
    pack, reader = make(SimOptions(script=("Yes.",))), partial(Read, 640, 1280)
    pack = replace(
        pack, stages=(*pack.stages, reader()), edges=(*pack.edges, (Role.READ, Role.THINK)),
        makers={**pack.makers, Role.READ: reader},
    )  # fmt: skip
    think: Any = next(stage for stage in pack.stages if stage.spec.name == "think")
    host = SessionHost(settings, pack, Observer().record)
    async with listening(host, settings.server, Observer()) as url, asyncio.timeout(CEILING_S):
        await host.start(lambda line: None)
        async with ClientSession(url) as http, http.ws_connect("/v1/realtime") as ws:
            for shown in (["blorptic 7431", "zunfelda quix"], []):
                content = [
                    {"type": "input_text", "text": "What is written here?"},
                    {"type": "input_image", "image_url": page(*shown)},
                ]
                item = {"type": "message", "role": "user", "content": content}
                await ws.send_json({"type": "conversation.item.create", "item": item})
                await ws.send_json({"type": "response.create", "response": {"output_modalities": ["text"]}})
                while (await ws.receive_json())["type"] != "response.done":
                    pass
    first, second = think.prompts
    assert first.messages[-1].text == "What is written here?\nText in picture: blorptic 7431 / zunfelda quix"
    assert second.messages[0].text == first.messages[-1].text
    assert second.messages[-1].text == "What is written here?\n(Picture: no text in it.)"
