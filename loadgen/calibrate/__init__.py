"""`loadgen calibrate`: a profile for the simulator from a model pack's own stages, measured on this machine.

probes ─► stages (step, submit) ─► medians ─► fit ─► profile ─► TOML
turns ──► VAD, end of turn ──► hearing ─────────────────┘
"""
