"""Who a node is to the API: the user and the group of its kubelet's certificate. Pure."""

from __future__ import annotations

from collections.abc import Iterable

PREFIX, GROUP = "system:node:", "system:nodes"
LEASES = "kube-node-lease"
"""The namespace of the nodes' heartbeats."""


def node_of(user: str, groups: Iterable[str]) -> str:
    """The node's name; empty: it is none."""
    return user.removeprefix(PREFIX) if user.startswith(PREFIX) and GROUP in groups else ""
