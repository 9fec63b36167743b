"""For all tests: a property may take its time on a busy machine, and no event leaves that is not in the vocabulary."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from pydantic import ValidationError

from duplex.protocol import WireEncoder
from duplex.protocol.server_events import SERVER_EVENT

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def vocabulary(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hold every event that an encoder of this process makes against the models of the wire, as JSON."""
    refused: list[str] = []
    encode = WireEncoder.encode

    def checked(self: WireEncoder, event: Any) -> list[dict[str, Any]]:
        shown = encode(self, event)
        for each in shown:
            text = json.dumps(each, ensure_ascii=False).encode(errors="replace")  # half a surrogate pair is let pass
            try:
                SERVER_EVENT.validate_json(text)
            except ValidationError as error:
                wrong = error.errors(include_url=False, include_input=False, include_context=False)
                refused.extend(f"{'.'.join(map(str, at['loc']))}: {at['msg']}" for at in wrong)
        return shown

    monkeypatch.setattr(WireEncoder, "encode", checked)
    yield
    assert not refused, f"not in duplex/protocol/server_events.py: {refused}"
