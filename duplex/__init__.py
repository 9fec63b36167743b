"""duplex: a server for live conversations with a model, which owns time."""

__version__ = "0.1.0"
