"""Classifies a request into a flow. Requests that must never wait (probes, system users) have none."""

from __future__ import annotations

from collections.abc import Callable

from shoal.apiserver.authn import ANONYMOUS, LOOPS, UNAUTHENTICATED, Authenticator, User, home_of
from shoal.apiserver.fairness.flows import Flow, Flows, Level
from shoal.apiserver.paths import ROOT, WILDCARD, parse, verb_of
from shoal.objects.errors import Unauthorized
from shoal.objects.wire import Request

PROBES = ("/healthz", "/livez", "/readyz")
_WAITING = 300
_ELSEWHERE = Level("elsewhere", shares=20, queues=True, longest=_WAITING, most=_WAITING)
"""The priority level of requests proxied to another server, which authenticates its own users."""


class Askers:
    def __init__(
        self, authenticator: Authenticator, flows: Flows, exists: Callable[[str], bool], passed: tuple[str, ...]
    ) -> None:
        """`cluster_exists` tells if a logical cluster exists. `proxied_prefixes` are the path prefixes that are
        proxied.
        """
        self._authenticator, self._flows, self._exists, self._passed = authenticator, flows, exists, passed

    def flow_of(self, request: Request) -> Flow | None:
        """Returns None for a request that never waits."""
        if request.path.startswith(PROBES):
            return None
        if self._passed and request.path.startswith(self._passed):
            # One flow per target and peer address: the user is not known here.
            return Flow("/".join(request.path.split("/", 4)[:4]), _ELSEWHERE, request.remote, ())
        target = parse(request.path)
        user = self._user(request, target.cluster)
        if user.crosses_clusters or user.name == LOOPS:
            return None
        cluster = ROOT if target.cluster == WILDCARD or not self._exists(target.cluster) else target.cluster
        watching = request.method == "GET" and "watch=" in request.query
        return self._flows.of(cluster, user, verb_of(request.method, target, watching), target)

    def _user(self, request: Request, cluster: str) -> User:
        try:
            return self._authenticator.authenticate(request, cluster)
        except Unauthorized:
            return User(ANONYMOUS, (UNAUTHENTICATED,), cluster=home_of(cluster))
