"""Startup settings of a worker."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.kinds.fleet import infrav1


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    name: str
    capacity: int = 100
    """The most ManagedClusters it hosts."""
    location: str = ""
    version: str = ""
    """Kubernetes version of clusters that request none."""
    hub_url: str = ""
    """Where clients reach the hub: scheme, host and port. Kubeconfigs name it."""
    hub_ca: str = ""
    """CA certificate of the hub, as PEM; empty: the system's trust store."""
    hub_server_name: str = ""
    """The name in the hub's certificate; empty: the host of its URL."""
    infrastructures: tuple[str, ...] = ("embedded",)
    """Infrastructures of ManagedClusters it can host."""
    infrastructure: str = infrav1.EXTERNAL_WORKER
    """Infrastructure of its Worker."""

    @property
    def is_hub_managed(self) -> bool:
        """A hub runs it: its Worker object defines it, and without one it does not join."""
        return self.infrastructure == infrav1.PROCESS_WORKER
