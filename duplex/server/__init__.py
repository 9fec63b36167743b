"""The HTTP and WebSocket app: routes, limits, health and the page. What a session is, it does not know."""
