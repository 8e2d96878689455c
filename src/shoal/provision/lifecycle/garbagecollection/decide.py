"""Finds NodeClaims whose instance the provider does not list. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from shoal.kinds.karpenter.karpenter import READY, REGISTERED, is_deleting, is_managed_node_class, provider_id
from shoal.objects.conditions import condition_is
from shoal.provision.cloudprovider.types import Instance

Object = dict[str, Any]


def claims_without_instance(
    claims: Iterable[Object], instances: Iterable[Instance], nodes_of: Callable[[Object], Iterable[Object]]
) -> list[Object]:
    """Only registered NodeClaims, which once had an instance. A Ready node runs on some machine, whatever the provider
    lists.
    """
    provider_ids = {each.provider_id for each in instances if not each.deleting}
    return [
        claim
        for claim in claims
        if is_managed_node_class(claim["spec"])
        and not is_deleting(claim)
        and condition_is(claim, REGISTERED)
        and provider_id(claim) not in provider_ids
        and not any(condition_is(node, READY) for node in nodes_of(claim))
    ]
