"""What the loops ask of whoever has machines: types with prices to choose from, a machine for a NodeClaim, its end.

Every call may be repeated. What takes its time raises `NotYet`; the provider tells, by what `listen` was given,
when the NodeClaim is worth another look.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from shoal.fit.resources import Resources
from shoal.objects.errors import ShoalError

Object = dict[str, Any]
Told = Callable[[str, str], None]
"""Of a change that concerns a NodeClaim: logical cluster and name. An empty name: all of that cluster."""


class ProviderError(ShoalError):
    """`reason` is that of the condition it ends up in."""

    reason = "Unknown"


class NotYet(ProviderError):
    """Under way."""

    reason = "Launching"


class InsufficientCapacity(ProviderError):
    """No machine can be had for this NodeClaim: it is given up, and its pods are looked at anew."""

    reason = "InsufficientCapacityError"


class NodeClassNotReady(ProviderError):
    """As InsufficientCapacity."""

    reason = "NodeClassNotReady"


class NodeClaimNotFound(ProviderError):
    """There is no machine behind the NodeClaim: a fact, not a failure to look."""

    reason = "NotFound"


@dataclass(frozen=True, slots=True)
class Offering:
    """A way to buy an instance type: in one zone, with one capacity type, at one price."""

    name: str
    """The provider's, such as namespace/name of a MachineDeployment."""
    labels: Mapping[str, str]
    """All that is known of its nodes' labels."""
    price: float
    room: int | None = None
    """How many more can be had; None: as many as one likes."""
    taints: tuple[Object, ...] = ()

    @property
    def available(self) -> bool:
        return self.room is None or self.room > 0


@dataclass(frozen=True, slots=True)
class InstanceType:
    name: str
    capacity: Resources
    allocatable: Resources
    offerings: tuple[Offering, ...]


@dataclass(frozen=True, slots=True)
class Instance:
    """The machine behind a NodeClaim."""

    provider_id: str
    labels: Mapping[str, str]
    capacity: Resources
    allocatable: Resources
    going: bool = False


class CloudProvider(Protocol):
    name: str

    @property
    def synced(self) -> bool:
        """Before that nothing is known to be absent."""

    def listen(self, told: Told) -> None: ...

    def instance_types(self, cluster: str, node_class: Object) -> list[InstanceType]:
        """All of them, by name, those that cannot be had now too."""

    def class_problem(self, cluster: str, node_class: Object) -> tuple[str, str] | None:
        """Why nothing can be bought with the node class: reason and message. None: it is ready."""

    async def create(self, cluster: str, claim: Object) -> Instance: ...

    async def delete(self, cluster: str, claim: Object) -> None:
        """Returns while the machine is going; NodeClaimNotFound when it is gone."""

    def get(self, cluster: str, claim: Object) -> Instance | None:
        """The machine behind it; None: none is known."""

    def foresee(self, cluster: str, claim: Object) -> Instance | None:
        """As `get`; before there is a machine, the one that is to be expected."""
