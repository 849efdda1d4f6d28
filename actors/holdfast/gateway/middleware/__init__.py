"""ASGI middleware and the HTTP protocol: limits, same-origin checks, authentication, rates."""
