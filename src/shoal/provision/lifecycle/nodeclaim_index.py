"""Index of NodeClaims and nodes by providerID.

It must be created before the controllers that use it, so that its handlers run before theirs.
"""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.kinds.karpenter.karpenter import is_managed_node_class, provider_id
from shoal.provision.state import ClusterState, provider_id_of

Object = dict[str, Any]
ObjectKey = tuple[str, str]
"""Logical cluster, and name or providerID."""


class NodeClaimIndex:
    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._claim_by_id: dict[ObjectKey, str] = {}
        self._nodes_by_id: dict[ObjectKey, set[str]] = {}
        state.node_claims.add_event_handler(self._on_claim)
        state.nodes.add_event_handler(self._on_node)

    def claim_of(self, cluster: str, node: Object | None) -> Object | None:
        """Returns None if there is none, or if another provisioner manages it."""
        name = self._claim_by_id.get((cluster, provider_id_of(node)))
        claim = self._state.node_claims.get(cluster, name) if name is not None else None
        return claim if claim is not None and is_managed_node_class(claim["spec"]) else None

    def nodes_of(self, cluster: str, claim: Object) -> list[Object]:
        """Exactly one, unless several nodes have the same providerID."""
        names = self._nodes_by_id.get((cluster, provider_id(claim)), ()) if provider_id(claim) else ()
        nodes = (self._state.nodes.get(cluster, name) for name in sorted(names))
        return [node for node in nodes if node is not None]

    def _on_claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._claim_by_id.pop((key[0], provider_id(old or {})), None)
        elif provider_id(new):
            self._claim_by_id[key[0], provider_id(new)] = key[2]

    def _on_node(self, key: Key, old: Object | None, new: Object | None) -> None:
        old_key, new_key = (key[0], provider_id_of(old)), (key[0], provider_id_of(new))
        if old_key != new_key and old_key in self._nodes_by_id:
            self._nodes_by_id[old_key].discard(key[2])
            if not self._nodes_by_id[old_key]:
                del self._nodes_by_id[old_key]
        if new_key[1]:
            self._nodes_by_id.setdefault(new_key, set()).add(key[2])
