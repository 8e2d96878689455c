"""What a worker is told when it is started."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.kinds import fleet


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    name: str
    capacity: int = 100
    """ManagedClusters it hosts at most."""
    location: str = ""
    version: str = ""
    """The Kubernetes version of clusters that ask for none."""
    hub_url: str = ""
    """Where clients reach the hub: scheme, host and port. Kubeconfigs name it."""
    hub_authority: str = ""
    """The certificate, as PEM, by which they trust it; empty: one the system trusts."""
    provides: tuple[str, ...] = ("embedded",)
    """The infrastructures of ManagedClusters it can host."""
    infrastructure: str = fleet.EXTERNAL
    """What its Worker is."""

    @property
    def declared(self) -> bool:
        """A hub runs it: what it is, is what its Worker says, and without one it is nobody."""
        return self.infrastructure == fleet.PROCESS
