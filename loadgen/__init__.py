"""Concurrent talkers against a running server, and the simulator that runs the server's own code on virtual time."""
