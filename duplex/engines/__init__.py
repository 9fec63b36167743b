"""Adapters to what computes; each hides one library."""
