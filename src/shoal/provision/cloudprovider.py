"""What the loops ask of whoever has machines: the contract of a cloud provider, and the errors they tell apart.

Types with prices to choose from, a machine for a NodeClaim, its end, whether it is outdated or ill. Every call may be
repeated, also by a process that knows nothing of the one before. What takes its time raises `NotYet`; the provider
tells, by what `listen` was given, when the NodeClaim is worth another look.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from shoal.fit.requirements import Requirement, Requirements
from shoal.fit.resources import Resources
from shoal.objects.errors import ShoalError

Object = dict[str, Any]
Told = Callable[[str, str], None]
"""Of a change that concerns a NodeClaim: logical cluster and name. An empty name: all of that cluster."""


class ProviderError(ShoalError):
    """`reason` is that of the condition it ends up in. One of no other kind is a failure: it is tried again."""

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


class CreateError(ProviderError):
    """A failure with a reason of its own for the Launched condition; tried again until the NodeClaim is overdue."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class NodeClaimNotFound(ProviderError):
    """There is no machine behind the NodeClaim: a fact, not a failure to look."""

    reason = "NotFound"


class UnevaluatedNodePool(ProviderError):
    """The prices of a NodePool's types are not known yet: it is passed over until they are."""

    reason = "UnevaluatedNodePoolError"


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
    reservation: str = ""
    """What it is taken from, if it is paid for already: offerings of one reservation share its capacity."""
    reservation_capacity: int = 0
    """How many machines are left of the reservation."""

    @property
    def available(self) -> bool:
        reserved = not self.reservation or self.reservation_capacity > 0
        return reserved and (self.room is None or self.room > 0)


@dataclass(frozen=True, slots=True)
class InstanceType:
    name: str
    capacity: Resources
    allocatable: Resources
    offerings: tuple[Offering, ...]
    requirements: Requirements = field(default_factory=Requirements)
    """What the labels of its nodes may be; follows from the offerings unless it is given."""

    def __post_init__(self) -> None:
        if not self.requirements:
            object.__setattr__(self, "requirements", _offered(self.offerings))


@dataclass(frozen=True, slots=True)
class Instance:
    """The machine behind a NodeClaim."""

    provider_id: str
    labels: Mapping[str, str]
    capacity: Resources
    allocatable: Resources
    going: bool = False
    name: str = ""
    """The provider's, such as namespace/name of a Machine."""
    claim: str = ""
    claim_uid: str = ""
    """Whose it is."""
    image: str = ""


@dataclass(frozen=True, slots=True)
class RepairPolicy:
    """A node with this condition for longer than it is tolerated is replaced."""

    condition: str
    status: str
    toleration_seconds: float


class ClassKind(NamedTuple):
    """A kind of node class."""

    group: str
    version: str
    kind: str


InstanceTypes = list[InstanceType]
Instances = list[Instance]


class CloudProvider(Protocol):
    name: str

    @property
    def synced(self) -> bool:
        """Before that nothing is known to be absent."""

    def listen(self, told: Told) -> None: ...

    def supported_node_classes(self) -> tuple[ClassKind, ...]:
        """The first is the default."""

    def repair_policies(self) -> tuple[RepairPolicy, ...]: ...

    def instance_types(self, cluster: str, node_class: Object) -> InstanceTypes:
        """All of them, by name, those that cannot be had now too. Every offering has a zone and a capacity type.

        UnevaluatedNodePool: what they cost is not known yet.
        """

    def class_problem(self, cluster: str, node_class: Object) -> tuple[str, str] | None:
        """Why nothing can be bought with the node class: reason and message. None: it is ready."""

    async def create(self, cluster: str, claim: Object) -> Instance:
        """The machine, of the cheapest offering that will do, once it has a providerID.

        InsufficientCapacity, NodeClassNotReady: it is given up. NotYet, CreateError, any other: tried again.
        """

    async def delete(self, cluster: str, claim: Object) -> None:
        """Returns while the machine is going; NodeClaimNotFound when it is gone."""

    def get(self, cluster: str, claim: Object) -> Instance | None:
        """The machine behind it; None: none is known."""

    def list(self, cluster: str) -> Instances:
        """All machines that NodeClaims have or had, those that are going too: one that is odd hides no other."""

    def is_drifted(self, cluster: str, claim: Object) -> str:
        """Why the machine is not what would be bought now; empty: it is. NodeClaimNotFound: there is none."""

    def foresee(self, cluster: str, claim: Object) -> Instance | None:
        """As `get`; before there is a machine, the one that is to be expected."""


def _offered(offerings: tuple[Offering, ...]) -> Requirements:
    """Each label with the values it has somewhere; one that not all have may be missing."""
    values: dict[str, list[str]] = {}
    for offering in offerings:
        for key, value in offering.labels.items():
            values.setdefault(key, []).append(value)
    return Requirements(
        Requirement(key, False, frozenset(found), absent=len(found) < len(offerings)) for key, found in values.items()
    )
