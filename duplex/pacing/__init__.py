"""Pacing: how far ahead of the listener each stage may work. Pure."""
