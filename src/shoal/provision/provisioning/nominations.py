"""Where pending pods are expected to be scheduled, by pod uid: the name of a NodeClaim or a node. Pure."""

from __future__ import annotations

from collections.abc import Collection, MutableMapping


def release_nomination(nominations: MutableMapping[str, str], uid: str, bound_to: Collection[str]) -> None:
    """Removes the nomination of a pod that is pending no more. `bound_to` are the names of its node and NodeClaim.

    The scheduler may bind a pod to the node that was bought for another one, which then needs the node that is left.
    """
    expected = nominations.pop(uid, "")
    if not expected or expected in bound_to:
        return
    displaced = next((other for other, place in nominations.items() if place in bound_to), None)
    if displaced is not None:
        nominations[displaced] = expected
