"""Revisions of the workloads of a hub, which `kubectl rollout history` and `undo` read."""
