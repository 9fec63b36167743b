"""How an engine's failure to load is told to whoever starts the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from duplex.engines import EngineError
from duplex.stages.contract import PackError


@contextmanager
def starting(what: str) -> Iterator[None]:
    """Turn an EngineError inside the block into a PackError that names the part.

    Raises:
        PackError: the engine could not load or run its model.
    """
    try:
        yield
    except EngineError as error:
        raise PackError(f"{what} cannot start: {error}") from error
