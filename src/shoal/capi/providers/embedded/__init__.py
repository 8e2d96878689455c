"""The embedded provider: hosted control planes as logical clusters, simulated machines as their Nodes."""
