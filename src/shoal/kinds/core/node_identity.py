"""The API identity of a node: user and group of its kubelet's certificate. Pure."""

from __future__ import annotations

from collections.abc import Iterable

USER_PREFIX, NODES_GROUP = "system:node:", "system:nodes"
LEASE_NAMESPACE = "kube-node-lease"
"""The namespace of the nodes' heartbeat Leases."""


def node_name_of(user: str, groups: Iterable[str]) -> str:
    """Returns the node's name; empty: the user is not a node."""
    return user.removeprefix(USER_PREFIX) if user.startswith(USER_PREFIX) and NODES_GROUP in groups else ""
