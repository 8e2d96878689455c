"""Startup settings of a worker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.kinds.fleet import infrav1
from shoal.kinds.fleet.kindhosting import EMBEDDED, KIND

Object = dict[str, Any]
KindProbe = Callable[[], Awaitable[tuple[str, str]]]
"""Returns the reason for which there can be no kind clusters, and a message; an empty reason: there can be."""


@dataclass(frozen=True, slots=True)
class KindSupport:
    """What a worker needs to provide kind clusters."""

    probe: KindProbe
    new_key: Callable[[], bytes]
    """Returns the secret number of a new key that signs tokens."""
    images: Mapping[str, str] = field(default_factory=dict)
    """Node images by release, which come before those that kind publishes."""
    cpu: str = ""
    memory: str = ""
    """Of this machine. Empty: not known."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    name: str
    capacity: int | None = None
    """The most ManagedClusters it hosts. None: as its Worker says."""
    location: str | None = None
    """None: as its Worker says."""
    version: str = ""
    """Kubernetes version of clusters that request none."""
    hub_url: str = ""
    """Where clients reach the hub: scheme, host and port. Kubeconfigs name it."""
    hub_ca: str = ""
    """CA certificate of the hub, as PEM; empty: the system's trust store."""
    hub_server_name: str = ""
    """The name in the hub's certificate; empty: the host of its URL."""
    kind: KindSupport | None = None
    """None: it provides no kind clusters."""
    infrastructure: str = infrav1.EXTERNAL_WORKER
    """Infrastructure of its Worker."""

    on_registered: Callable[[Object, Object], None] = lambda before, after: None
    """Called once, with its Worker before and after the values of these settings were applied."""

    @property
    def infrastructures(self) -> tuple[str, ...]:
        """Infrastructures of ManagedClusters it can host."""
        return (EMBEDDED,) if self.kind is None else (EMBEDDED, KIND)

    @property
    def is_hub_managed(self) -> bool:
        """A hub runs it: its Worker object defines it, and without one it does not join."""
        return self.infrastructure == infrav1.PROCESS_WORKER
