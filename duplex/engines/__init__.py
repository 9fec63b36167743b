"""Adapters to what computes; each hides one library behind a few typed calls and knows no policy.

The libraries are optional dependencies of duplex: import a module of this package only where its library is installed.
"""


class EngineError(Exception):
    """An engine failed or refused a request; foreign exceptions are mapped to this at the adapter."""


class ContextOverflowError(EngineError):
    """The prompt has more tokens than the engine's context holds."""


_NO_MEMORY = ("failed to allocate memory", "bad_alloc")
"""How native libraries put it, in exceptions of no class of its own."""


def mapped(error: Exception, said: str = "") -> EngineError | MemoryError:
    """Return what a library raised as what this package raises: MemoryError where the library got no memory.

    Args:
        said: in front of its own words.
    """
    if any(words in str(error).lower() for words in _NO_MEMORY):
        return MemoryError()
    return EngineError(f"{said}{error}")


__all__ = ["ContextOverflowError", "EngineError", "mapped"]
