"""Stages: what a model pack is made of, and what runs it."""
