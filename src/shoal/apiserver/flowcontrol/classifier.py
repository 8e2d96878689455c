"""Classifies a request into a flow. Requests that must never wait (probes, system users) have none."""

from __future__ import annotations

from collections.abc import Callable

from shoal.apiserver.authn.authenticator import (
    ANONYMOUS,
    CONTROLLERS_USER,
    UNAUTHENTICATED,
    Authenticator,
    User,
    cluster_of_user,
)
from shoal.apiserver.flowcontrol.flowschema import Flow, FlowSchemas, PriorityLevel
from shoal.apiserver.request.info import ROOT, WILDCARD, parse_path, verb_of
from shoal.objects.errors import Unauthorized
from shoal.objects.wire import Request

PROBE_PATHS = ("/healthz", "/livez", "/readyz")
_PROXIED_QUEUE_LENGTH = 300
_PROXIED_LEVEL = PriorityLevel(
    "elsewhere", shares=20, is_queuing=True, max_queued_per_flow=_PROXIED_QUEUE_LENGTH, max_queued=_PROXIED_QUEUE_LENGTH
)
"""The priority level of requests proxied to another server, which authenticates its own users."""


class RequestClassifier:
    def __init__(
        self,
        authenticator: Authenticator,
        flow_schemas: FlowSchemas,
        cluster_exists: Callable[[str], bool],
        proxied_prefixes: tuple[str, ...],
    ) -> None:
        """`cluster_exists` tells if a logical cluster exists. `proxied_prefixes` are the path prefixes that are
        proxied.
        """
        self._authenticator, self._flow_schemas, self._cluster_exists, self._proxied_prefixes = (
            authenticator,
            flow_schemas,
            cluster_exists,
            proxied_prefixes,
        )

    def classify(self, request: Request) -> Flow | None:
        """Returns None for a request that never waits."""
        if request.path.startswith(PROBE_PATHS):
            return None
        if self._proxied_prefixes and request.path.startswith(self._proxied_prefixes):
            # One flow per target and peer address: the user is not known here.
            return Flow("/".join(request.path.split("/", 4)[:4]), _PROXIED_LEVEL, request.remote_addr, ())
        target = parse_path(request.path)
        user = self._user(request, target.cluster)
        if user.crosses_clusters or user.name == CONTROLLERS_USER:
            return None
        cluster = ROOT if target.cluster == WILDCARD or not self._cluster_exists(target.cluster) else target.cluster
        is_watch = request.method == "GET" and "watch=" in request.query
        return self._flow_schemas.flow_of(cluster, user, verb_of(request.method, target, is_watch), target)

    def _user(self, request: Request, cluster: str) -> User:
        try:
            return self._authenticator.authenticate(request, cluster)
        except Unauthorized:
            return User(ANONYMOUS, (UNAUTHENTICATED,), cluster=cluster_of_user(cluster))
