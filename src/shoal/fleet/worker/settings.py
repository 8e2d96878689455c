"""Startup settings of a worker."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.kinds import fleet


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
    hub_authority: str = ""
    """CA certificate of the hub, as PEM; empty: the system's trust store."""
    provides: tuple[str, ...] = ("embedded",)
    """Infrastructures of ManagedClusters it can host."""
    infrastructure: str = fleet.EXTERNAL
    """Infrastructure of its Worker."""

    @property
    def declared(self) -> bool:
        """A hub runs it: its Worker object defines it, and without one it does not join."""
        return self.infrastructure == fleet.PROCESS
