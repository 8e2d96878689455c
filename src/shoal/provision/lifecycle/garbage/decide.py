"""Finds NodeClaims whose instance the provider does not list. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from shoal.kinds.karpenter import READY, REGISTERED, is_going, is_managed, provider_id
from shoal.objects.conditions import condition_is
from shoal.provision.cloudprovider import Instance

Object = dict[str, Any]


def abandoned(
    claims: Iterable[Object], instances: Iterable[Instance], nodes: Callable[[Object], Iterable[Object]]
) -> list[Object]:
    """Only registered NodeClaims, which once had an instance. A Ready node runs on some machine, whatever the provider
    lists.
    """
    there = {each.provider_id for each in instances if not each.going}
    return [
        claim
        for claim in claims
        if is_managed(claim["spec"])
        and not is_going(claim)
        and condition_is(claim, REGISTERED)
        and provider_id(claim) not in there
        and not any(condition_is(node, READY) for node in nodes(claim))
    ]
