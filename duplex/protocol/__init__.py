"""The wire: Realtime events to core messages and back. Pure; nothing else knows it."""
