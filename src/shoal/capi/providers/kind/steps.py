"""The snapshot to decide about a KINDCluster, and the possible steps. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shoal.capi.providers.kind.answers import Problem
from shoal.capi.providers.kind.kubeconfigs import Access

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Listing:
    """The existing kind clusters."""

    names: frozenset[str]
    problem: Problem | None
    """The list failed: nothing is known."""
    fresh: bool
    """Started after this key was taken from the queue, and after its last job ended."""


@dataclass(frozen=True, slots=True)
class Work:
    """State of the kind job that creates or deletes the cluster of this object."""

    action: str
    done: bool
    problem: Problem | None
    progress: str


@dataclass(frozen=True, slots=True)
class Fetched:
    """The kubeconfig that kind returned, or the error."""

    access: Access | None
    problem: Problem | None
    fresh: bool


@dataclass(frozen=True, slots=True)
class Marked:
    value: str | None
    """The uid the cluster was created for; None: it does not respond."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """Delays between attempts, in seconds."""

    first: float = 10.0
    longest: float = 600.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    obj: Object
    cluster: Object | None
    """The Cluster that owns it."""
    holder: str
    """Another KINDCluster that has the wanted name; empty: none."""
    listing: Listing | None
    work: Work | None
    fetched: Fetched | None
    marked: Marked | None
    secrets: Sequence[Object]
    """Secrets with the label of this object."""
    taken: frozenset[str]
    """Names of Secrets that belong to others."""
    now: str
    machine: str = ""
    """Identifies the host of the clusters that kind creates; empty: unknown."""
    pauses: Pauses = Pauses()


@dataclass(frozen=True, slots=True)
class Patch:
    body: Object


@dataclass(frozen=True, slots=True)
class Write:
    obj: Object
    """The object with the status to write."""
    settles: bool = False
    """Whether the write contains the result of the job, which is then forgotten."""


@dataclass(frozen=True, slots=True)
class Look:
    """Lists the existing kind clusters."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """Fetches the kubeconfig."""

    name: str


@dataclass(frozen=True, slots=True)
class Mark:
    """Reads from the cluster which object it was created for."""

    name: str


@dataclass(frozen=True, slots=True)
class Create:
    name: str
    config: Object


@dataclass(frozen=True, slots=True)
class Remove:
    name: str


@dataclass(frozen=True, slots=True)
class Cancel:
    pass


@dataclass(frozen=True, slots=True)
class Settle:
    """Forgets the job: there is no result to write."""


@dataclass(frozen=True, slots=True)
class WriteSecret:
    secret: Object


@dataclass(frozen=True, slots=True)
class DeleteSecret:
    secret: Object


@dataclass(frozen=True, slots=True)
class Wait:
    seconds: float | None = None
    """None: until the next change."""


Step = Patch | Write | Look | Fetch | Mark | Create | Remove | Cancel | Settle | WriteSecret | DeleteSecret | Wait
