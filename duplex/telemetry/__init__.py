"""Observers: metrics and logs made from what cores report."""
