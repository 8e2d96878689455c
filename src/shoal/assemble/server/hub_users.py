"""Tokens of the hub's users for hosted clusters: the hub asks the worker of a cluster, which signs them.

`hub_user_tokens` is the hub's side, `HubUserTokenIssuer` the worker's. A request between them goes through the tunnel
on a path of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from shoal.apiserver.authn import hub_user_token
from shoal.apiserver.registry.clusters import LogicalCluster
from shoal.apiserver.request.info import ROOT
from shoal.apiserver.server import ServerComponents
from shoal.assemble.server.kind_clusters import KindClusters
from shoal.fleet.tunnel import TunnelRegistry
from shoal.fleet.tunnel.registry import WorkerOf
from shoal.fleet.tunnel.user_tokens import decode_request, decode_response, encode_request, encode_response
from shoal.fleet.worker.subscriber.decide import version_of
from shoal.kinds.clusterapi.embedded import logical_cluster_name
from shoal.kinds.fleet import access, infrav1
from shoal.kinds.fleet.access import HubUser, HubUserToken, HubUserTokenRequest
from shoal.objects.errors import Unavailable
from shoal.objects.wire import Request, Response

WORKER_TIMEOUT_SECONDS = 15.0
"""Longer than a worker waits by itself. A worker that is slow holds no seat of the hub for longer."""
BINDING_WAIT_SECONDS, BINDING_POLL_SECONDS = 5.0, 0.05
"""A user who was just listed waits that long for the roles to arrive at the worker."""


def hub_user_tokens(
    tunnels: TunnelRegistry, worker_of: WorkerOf
) -> Callable[[HubUserTokenRequest], Awaitable[HubUserToken]]:
    async def issue(token_request: HubUserTokenRequest) -> HubUserToken:
        worker = worker_of(token_request.namespace, token_request.name)
        if not worker:
            raise _unavailable(token_request, "is not assigned to a worker yet")
        answer = tunnels.handler_for(worker)(encode_request(token_request))
        try:
            async with asyncio.timeout(WORKER_TIMEOUT_SECONDS):
                response = await answer if isinstance(answer, Awaitable) else answer
        except TimeoutError:
            raise Unavailable(f'worker "{worker}" did not answer a token request', retry_after=1) from None
        if not isinstance(response, Response):
            raise Unavailable(f'worker "{worker}" did not answer a token request')
        return decode_response(worker, response)

    return issue


class HubUserTokenIssuer:
    """Signs tokens for clusters that this worker hosts. Only the worker's end of the tunnel may call it."""

    def __init__(self, core: ServerComponents, kind_clusters: KindClusters | None = None) -> None:
        self._core, self._kind_clusters = core, kind_clusters
        self._copies = core.cache.resource_cache(infrav1.GROUP, "managedclusters")
        self._bindings = core.cache.resource_cache("rbac.authorization.k8s.io", "clusterrolebindings")

    async def handle(self, request: Request) -> Response:
        token_request, core = decode_request(request), self._core
        kind_clusters = self._kind_clusters
        if kind_clusters is not None and kind_clusters.is_kind(token_request.namespace, token_request.name):
            return encode_response(await self._issue_for_kind(kind_clusters, token_request))
        cluster = self._hosted_cluster(token_request)
        await self._wait_for_roles(token_request, cluster.name)
        await core.keys.ensure_signing_key(cluster.name)
        token, expiry = hub_user_token.issue(
            core.tokens,
            cluster.name,
            cluster.uid,
            token_request.user,
            seconds=token_request.seconds,
            now=core.clock.now(),
        )
        return encode_response(HubUserToken(token, expiry, core.tokens.issuer(cluster.name)))

    async def _issue_for_kind(self, kind_clusters: KindClusters, token_request: HubUserTokenRequest) -> HubUserToken:
        end = self._core.clock.monotonic() + BINDING_WAIT_SECONDS
        while True:
            try:
                return kind_clusters.issue(token_request)
            except Unavailable:
                if self._core.clock.monotonic() > end:
                    raise
            await self._core.clock.sleep(BINDING_POLL_SECONDS)

    def _hosted_cluster(self, token_request: HubUserTokenRequest) -> LogicalCluster:
        copy = self._copies.get(ROOT, token_request.namespace, token_request.name)
        cluster = self._core.clusters.get(logical_cluster_name(token_request.namespace, token_request.name))
        if copy is None or version_of(copy.object()).uid != token_request.uid or cluster is None:
            raise _unavailable(token_request, "is not running at its worker yet")
        if cluster.terminating:
            raise _unavailable(token_request, "is being deleted at its worker")
        return cluster

    async def _wait_for_roles(self, token_request: HubUserTokenRequest, cluster: str) -> None:
        """A token without roles would be of no use. The controller that binds them follows the hub with a delay."""
        end = self._core.clock.monotonic() + BINDING_WAIT_SECONDS
        while not self._has_role(cluster, token_request.user):
            if self._core.clock.monotonic() > end:
                raise _unavailable(
                    token_request,
                    f"has no role for {token_request.user.hosted_name} yet: see its condition AccessGranted",
                )
            await self._core.clock.sleep(BINDING_POLL_SECONDS)

    def _has_role(self, cluster: str, user: HubUser) -> bool:
        entries = self._bindings.table(cluster).entries.values()
        return any(
            access.is_access_binding(binding) and access.mentions(binding, user)
            for binding in (entry.object() for entry in entries if entry.name.startswith(access.BINDING_PREFIX))
        )


def _unavailable(token_request: HubUserTokenRequest, what: str) -> Unavailable:
    return Unavailable(f"ManagedCluster {token_request.namespace}/{token_request.name} {what}", retry_after=1)
