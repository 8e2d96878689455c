"""The snapshot to decide about a KINDCluster, and the possible steps. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.capi.providers.kind.errors import KindError
from shoal.capi.providers.kind.kubeconfig_secrets import KubeconfigAccess

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class KindClusterList:
    """The existing kind clusters."""

    names: frozenset[str]
    error: KindError | None
    """The list failed: nothing is known."""
    fresh: bool
    """Started after this key was taken from the queue, and after its last job ended."""


@dataclass(frozen=True, slots=True)
class JobState:
    """State of the kind job that creates, fills or deletes the cluster of this object."""

    action: str
    done: bool
    error: KindError | None
    progress: str
    steps: Mapping[str, str] = field(default_factory=dict)
    """States of the steps of a creation, by condition type."""
    images: Mapping[str, str] = field(default_factory=dict)
    """The images that are loaded, with their ids."""


@dataclass(frozen=True, slots=True)
class FetchedKubeconfig:
    """The kubeconfig that kind returned, or the error."""

    access: KubeconfigAccess | None
    error: KindError | None
    fresh: bool


@dataclass(frozen=True, slots=True)
class OwnerMarker:
    value: str | None
    """The uid the cluster was created for; None: it does not respond."""


@dataclass(frozen=True, slots=True)
class EngineImages:
    ids: Mapping[str, str]
    """Of those requested images that the container engine has."""
    error: KindError | None


@dataclass(frozen=True, slots=True)
class RetryDelays:
    """Delays between attempts, in seconds."""

    initial: float = 10.0
    maximum: float = 600.0


@dataclass(frozen=True, slots=True)
class KindClusterSnapshot:
    obj: Object
    cluster: Object | None
    """The Cluster that owns it."""
    holder: str
    """Another KINDCluster that has the wanted name; empty: none."""
    listing: KindClusterList | None
    job: JobState | None
    kubeconfig: FetchedKubeconfig | None
    owner_marker: OwnerMarker | None
    secrets: Sequence[Object]
    """Secrets with the label of this object."""
    foreign_secrets: frozenset[str]
    """Names of Secrets that belong to others."""
    now: str
    host_id: str = ""
    """Identifies the host of the clusters that kind creates; empty: unknown."""
    retry_delays: RetryDelays = RetryDelays()
    engine_images: EngineImages | None = None


@dataclass(frozen=True, slots=True)
class PatchObject:
    body: Object


@dataclass(frozen=True, slots=True)
class WriteStatus:
    obj: Object
    """The object with the status to write."""
    forgets_job: bool = False
    """Whether the write contains the result of the job, which is then forgotten."""


@dataclass(frozen=True, slots=True)
class ListClusters:
    """Lists the existing kind clusters."""


@dataclass(frozen=True, slots=True)
class FetchKubeconfig:
    """Fetches the kubeconfig."""

    name: str


@dataclass(frozen=True, slots=True)
class ReadOwner:
    """Reads from the cluster which object it was created for."""

    name: str


@dataclass(frozen=True, slots=True)
class InspectImages:
    """Reads the ids of images from the container engine."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoadImages:
    """Loads images into the nodes."""

    name: str
    images: Mapping[str, str]
    """Ids by name."""


@dataclass(frozen=True, slots=True)
class CreateCluster:
    name: str
    config: Object


@dataclass(frozen=True, slots=True)
class DeleteCluster:
    name: str


@dataclass(frozen=True, slots=True)
class CancelJob:
    pass


@dataclass(frozen=True, slots=True)
class ForgetJob:
    """Forgets the job: there is no result to write."""


@dataclass(frozen=True, slots=True)
class WriteSecret:
    secret: Object


@dataclass(frozen=True, slots=True)
class DeleteSecret:
    secret: Object


@dataclass(frozen=True, slots=True)
class WaitForChange:
    seconds: float | None = None
    """None: until the next change."""


KindStep = (
    PatchObject
    | WriteStatus
    | ListClusters
    | FetchKubeconfig
    | ReadOwner
    | InspectImages
    | LoadImages
    | CreateCluster
    | DeleteCluster
    | CancelJob
    | ForgetJob
    | WriteSecret
    | DeleteSecret
    | WaitForChange
)
