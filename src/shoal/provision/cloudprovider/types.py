"""The cloud provider interface and the errors that controllers distinguish.

A provider lists priced instance types, launches and terminates an instance for a NodeClaim, and reports drift and
repair policies. Every call may be repeated, also by a process that knows nothing of the previous call. An operation
that takes time returns `LaunchPending`; the provider calls the handlers added by `add_event_handler` when the NodeClaim
should be reconciled again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

from shoal.fit.requirements import Requirement, Requirements
from shoal.fit.resources import Resources
from shoal.objects.errors import ShoalError

Object = dict[str, Any]
NodeClaimHandler = Callable[[str, str], None]
"""Called with the logical cluster and the name of a NodeClaim that changed. An empty name means all NodeClaims of the
cluster.
"""


class ProviderError(ShoalError):
    """`reason` is the reason of the condition that reports the error. An error of this base class is retried."""

    reason = "Unknown"


class NotSynced(ProviderError):
    """The provider has not listed everything yet. Retried."""

    reason = "NotSynced"


class InsufficientCapacity(ProviderError):
    """No instance can be had for this NodeClaim. It is deleted and its pods are scheduled again."""

    reason = "InsufficientCapacityError"


class NodeClassNotReady(ProviderError):
    """Handled like InsufficientCapacity."""

    reason = "NodeClassNotReady"


class CreateError(ProviderError):
    """A failure with its own reason for the Launched condition. Retried until the launch timeout of the NodeClaim."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class NodeClaimNotFound(ProviderError):
    """The NodeClaim has no instance. This is a fact, not a failed lookup."""

    reason = "NotFound"


class UnevaluatedNodePool(ProviderError):
    """The prices of a NodePool's types are not known yet. The pool is skipped until they are."""

    reason = "UnevaluatedNodePoolError"


@dataclass(frozen=True, slots=True)
class Offering:
    """One way to buy an instance type: one zone, one capacity type, one price."""

    name: str
    """The provider's name, such as namespace/name of a MachineDeployment."""
    labels: Mapping[str, str]
    """All known labels of its nodes."""
    price: float
    remaining: int | None = None
    """How many more can be launched; None: unlimited."""
    taints: tuple[Object, ...] = ()
    reservation: str = ""
    """The reservation it is drawn from, if it is prepaid. Offerings of one reservation share its capacity."""
    reservation_capacity: int = 0
    """Number of instances left in the reservation."""

    @property
    def available(self) -> bool:
        reserved = not self.reservation or self.reservation_capacity > 0
        return reserved and (self.remaining is None or self.remaining > 0)


@dataclass(frozen=True, slots=True)
class InstanceType:
    name: str
    capacity: Resources
    allocatable: Resources
    offerings: tuple[Offering, ...]
    requirements: Requirements = field(default_factory=Requirements)
    """Possible labels of its nodes. Derived from the offerings unless given."""

    def __post_init__(self) -> None:
        if not self.requirements:
            object.__setattr__(self, "requirements", _requirements_of(self.offerings))


@dataclass(frozen=True, slots=True)
class LaunchPending:
    """A launch in progress, and what it waits for."""

    reason: ClassVar[str] = "Launching"
    message: str


@dataclass(frozen=True, slots=True)
class Instance:
    """The instance behind a NodeClaim."""

    provider_id: str
    labels: Mapping[str, str]
    capacity: Resources
    allocatable: Resources
    deleting: bool = False
    name: str = ""
    """The provider's name, such as namespace/name of a Machine."""
    claim: str = ""
    claim_uid: str = ""
    """Uid of the NodeClaim that owns it."""
    image: str = ""


@dataclass(frozen=True, slots=True)
class RepairPolicy:
    """A node that has this condition for longer than `toleration_seconds` is replaced."""

    condition: str
    status: str
    toleration_seconds: float


class NodeClassKind(NamedTuple):
    """GroupVersionKind of a node class."""

    group: str
    version: str
    kind: str


InstanceTypes = list[InstanceType]
Instances = list[Instance]


class CloudProvider(Protocol):
    name: str

    @property
    def has_synced(self) -> bool:
        """Before this is True, a missing instance is not known to be absent."""

    def add_event_handler(self, handler: NodeClaimHandler) -> None: ...

    def supported_node_classes(self) -> tuple[NodeClassKind, ...]:
        """Returns the supported kinds; the first is the default."""

    def repair_policies(self) -> tuple[RepairPolicy, ...]: ...

    def instance_types(self, cluster: str, node_class: Object) -> InstanceTypes:
        """Returns all types by name, including those that are unavailable now. Every offering has a zone and a capacity
        type.

        Raises UnevaluatedNodePool while prices are unknown.
        """

    def node_class_error(self, cluster: str, node_class: Object) -> tuple[str, str] | None:
        """Returns reason and message if nothing can be bought with the node class; None if it is ready."""

    async def create(self, cluster: str, claim: Object) -> Instance | LaunchPending:
        """Launches an instance of the cheapest matching offering and returns it once it has a providerID.

        On InsufficientCapacity and NodeClassNotReady the NodeClaim is deleted. CreateError and all other errors are
        retried.
        """

    async def delete(self, cluster: str, claim: Object) -> None:
        """Returns while the instance is terminating. Raises NodeClaimNotFound when it is gone."""

    def get(self, cluster: str, claim: Object) -> Instance | None:
        """Returns the instance of a NodeClaim, or None if none is known."""

    def list(self, cluster: str) -> Instances:
        """Returns all instances that NodeClaims have or had, including terminating ones. One malformed instance does
        not hide the others.
        """

    def is_drifted(self, cluster: str, claim: Object) -> str:
        """Returns why the instance differs from what would be launched now; empty if it does not. Raises
        NodeClaimNotFound if there is none.
        """

    def expected_instance(self, cluster: str, claim: Object) -> Instance | None:
        """Like `get`; before there is an instance, returns the expected one."""


def _requirements_of(offerings: tuple[Offering, ...]) -> Requirements:
    """Each label with the values it has in any offering. A label that not all offerings have may be absent."""
    values: dict[str, list[str]] = {}
    for offering in offerings:
        for key, value in offering.labels.items():
            values.setdefault(key, []).append(value)
    return Requirements(
        Requirement(key, False, frozenset(label_values), allows_absent=len(label_values) < len(offerings))
        for key, label_values in values.items()
    )
