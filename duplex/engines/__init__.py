"""Adapters to what computes; each hides one library behind a few typed calls and knows no policy.

The libraries are optional dependencies of duplex: import a module of this package only where its library is installed.
"""


class EngineError(Exception):
    """An engine failed or refused a request; foreign exceptions are mapped to this at the adapter."""


class ContextOverflowError(EngineError):
    """The prompt has more tokens than the engine's context holds."""


__all__ = ["ContextOverflowError", "EngineError"]
