"""Settings of an API server that is assembled by `api_server`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from shoal.apiserver.audit import AuditConfig
from shoal.apiserver.authn.authenticator import User
from shoal.apiserver.cache.compaction import HistoryWindow
from shoal.apiserver.flowcontrol import DispatcherConfig
from shoal.apiserver.http import HTTPLimits
from shoal.apiserver.idle import DEFAULT_IDLE_SECONDS
from shoal.assemble.server.routes import RouteFactory, no_routes
from shoal.client.egress import Egress
from shoal.kinds.limits import DEFAULT_LIMITS, UNLIMITED, ClusterLimits
from shoal.objects.egress import EgressSettings


@dataclass(frozen=True, slots=True)
class ApiServerSettings:
    directory: Path
    """Certificates and signing keys."""
    host: str = "127.0.0.1"
    port: int = 0
    advertise_address: str = ""
    """The name or address clients use, if it is not the host."""
    certificate_names: tuple[str, ...] = ()
    """Further names of the serving certificate."""
    tokens: dict[str, User] = field(default_factory=dict)
    root_profile: str = ""
    """hub or cluster; empty keeps the stored profile, hub at first."""
    limits: HTTPLimits = field(default_factory=HTTPLimits)
    history_window: HistoryWindow = field(default_factory=HistoryWindow)
    audit: AuditConfig = field(default_factory=AuditConfig)
    dispatch: DispatcherConfig = field(default_factory=DispatcherConfig)
    shutdown_timeout: float = 20.0
    """How long requests in flight may take to end: longer than a write waits for etcd."""
    idle_connection_grace: float = 0.0
    """How long a client that connected before shutdown may still send its first request."""
    idle_seconds: float = DEFAULT_IDLE_SECONDS
    """A logical cluster without requests becomes idle after this time."""
    cluster_limits: ClusterLimits = DEFAULT_LIMITS
    """Limits of logical clusters that do not specify theirs."""
    root_limits: ClusterLimits = UNLIMITED
    external_serving_cert: bool = False
    """True if `serving.pem` is provided and renewed by somebody else."""
    bare_certificates: bool = False
    """True if client certificates that name no logical cluster belong to users of root."""
    egress: Egress = field(default_factory=lambda: Egress(EgressSettings()))
    """Where it connects on behalf of objects."""
    outside_controllers: frozenset[str] = frozenset()
    """Users of root that act in other logical clusters: loops outside this process."""
    routes: RouteFactory = no_routes
    """The routes beside the Kubernetes API."""

    @property
    def advertised_host(self) -> str:
        return self.advertise_address or ("127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host)
