"""Job controller, with pod tracking by finalizers, and the TTL-after-finished controller."""
