"""What the sections of the configuration are made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Ms = Annotated[int, Field(ge=0, le=3_600_000)]
"""Milliseconds, an hour at most."""
Db = Annotated[float, Field(ge=0, le=60)]
Probability = Annotated[float, Field(gt=0, lt=1)]


class Section(BaseModel):
    """A table of the configuration: frozen, and no name in it is unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")
