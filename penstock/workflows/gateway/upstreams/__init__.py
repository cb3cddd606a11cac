"""Providers behind the gateway: one, or several that serve the same models, with retries and a circuit breaker."""
