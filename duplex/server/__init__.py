"""HTTP and WebSocket app: routes, limits, health."""
