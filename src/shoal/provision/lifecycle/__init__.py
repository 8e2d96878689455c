"""Lifecycle of NodeClaims and their nodes: launch, registration, initialization, health, termination."""
