"""Timeline: watermarks, fronts, the egress ledger. Pure."""
