"""The session core: (message, now) → effects. Pure."""
