"""What is looked at to decide about a KINDCluster, and the steps there are. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shoal.capi.providers.kind.answers import Problem
from shoal.capi.providers.kind.kubeconfigs import Access

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Listing:
    """The kind clusters there are."""

    names: frozenset[str]
    problem: Problem | None
    """They could not be listed: nothing is known."""
    fresh: bool
    """Made since this key was taken up, and since its last work ended."""


@dataclass(frozen=True, slots=True)
class Work:
    """kind, making or deleting the cluster of this object."""

    action: str
    done: bool
    problem: Problem | None
    progress: str


@dataclass(frozen=True, slots=True)
class Fetched:
    """The kubeconfig that kind gave, or why it did not."""

    access: Access | None
    problem: Problem | None
    fresh: bool


@dataclass(frozen=True, slots=True)
class Marked:
    value: str | None
    """The uid the cluster says it was made for; None: it does not answer."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """Between attempts, in seconds."""

    first: float = 10.0
    longest: float = 600.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    obj: Object
    cluster: Object | None
    """The Cluster that owns it."""
    holder: str
    """Another KINDCluster that has the name asked for; empty: nobody."""
    listing: Listing | None
    work: Work | None
    fetched: Fetched | None
    marked: Marked | None
    secrets: Sequence[Object]
    """That carry the label of this object."""
    taken: frozenset[str]
    """Names of Secrets that are somebody else's."""
    now: str
    machine: str = ""
    """Where the clusters are that kind makes here; empty: that is not known."""
    pauses: Pauses = Pauses()


@dataclass(frozen=True, slots=True)
class Patch:
    body: Object


@dataclass(frozen=True, slots=True)
class Write:
    obj: Object
    """With the status to write."""
    settles: bool = False
    """What the work came to is told with it."""


@dataclass(frozen=True, slots=True)
class Look:
    """At the kind clusters there are."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """The kubeconfig."""

    name: str


@dataclass(frozen=True, slots=True)
class Mark:
    """Ask the cluster whose it is."""

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
    """The work is forgotten: there is nothing to tell of it."""


@dataclass(frozen=True, slots=True)
class WriteSecret:
    secret: Object


@dataclass(frozen=True, slots=True)
class DeleteSecret:
    secret: Object


@dataclass(frozen=True, slots=True)
class Wait:
    seconds: float | None = None
    """None: until something changes."""


Step = Patch | Write | Look | Fetch | Mark | Create | Remove | Cancel | Settle | WriteSecret | DeleteSecret | Wait
