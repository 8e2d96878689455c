"""The hub's side of joining: approval of worker certificates, expiry of join tokens, the workers' namespace."""
