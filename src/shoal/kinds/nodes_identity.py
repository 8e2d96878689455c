"""The API identity of a node: user and group of its kubelet's certificate. Pure."""

from __future__ import annotations

from collections.abc import Iterable

PREFIX, GROUP = "system:node:", "system:nodes"
LEASES = "kube-node-lease"
"""The namespace of the nodes' heartbeat Leases."""


def node_of(user: str, groups: Iterable[str]) -> str:
    """Returns the node's name; empty: the user is not a node."""
    return user.removeprefix(PREFIX) if user.startswith(PREFIX) and GROUP in groups else ""
