"""Index of NodeClaims and nodes by providerID.

It must be created before the controllers that use it, so that its handlers run before theirs.
"""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.kinds.karpenter import is_managed, provider_id
from shoal.provision.view import View, provider_id_of

Object = dict[str, Any]
Place = tuple[str, str]
"""Logical cluster, and name or providerID."""


class Pairs:
    def __init__(self, view: View) -> None:
        self._view = view
        self._claims: dict[Place, str] = {}
        self._nodes: dict[Place, set[str]] = {}
        view.claims.listen(self._claim)
        view.nodes.listen(self._node)

    def claim_of(self, cluster: str, node: Object | None) -> Object | None:
        """Returns None if there is none, or if another provisioner manages it."""
        name = self._claims.get((cluster, provider_id_of(node)))
        claim = self._view.claims.get(cluster, name) if name is not None else None
        return claim if claim is not None and is_managed(claim["spec"]) else None

    def nodes_of(self, cluster: str, claim: Object) -> list[Object]:
        """Exactly one, unless several nodes have the same providerID."""
        names = self._nodes.get((cluster, provider_id(claim)), ()) if provider_id(claim) else ()
        found = (self._view.nodes.get(cluster, name) for name in sorted(names))
        return [node for node in found if node is not None]

    def _claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._claims.pop((key[0], provider_id(old or {})), None)
        elif provider_id(new):
            self._claims[key[0], provider_id(new)] = key[2]

    def _node(self, key: Key, old: Object | None, new: Object | None) -> None:
        before, after = (key[0], provider_id_of(old)), (key[0], provider_id_of(new))
        if before != after and before in self._nodes:
            self._nodes[before].discard(key[2])
            if not self._nodes[before]:
                del self._nodes[before]
        if after[1]:
            self._nodes.setdefault(after, set()).add(key[2])
