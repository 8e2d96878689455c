"""Requests to the kind clusters of a worker that come through the tunnel: who the client is, and what it may see.

A token of a hub user is signed by this worker, for one ManagedCluster; the request goes on as that user. Any other
token is for the kind cluster, which decides about it. A client that is not authenticated gets the answer of the
worker's own server, which knows no such cluster: nobody learns that it exists.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable
from typing import Any

import orjson

from shoal.apiserver.authn import hub_user_token
from shoal.apiserver.authn.authenticator import User
from shoal.apiserver.authn.serviceaccount_token import TokenSigner
from shoal.apiserver.authz import Attributes, forbidden
from shoal.apiserver.cache.objects import CacheEvent
from shoal.apiserver.impersonation import parse_headers
from shoal.apiserver.request.info import ROOT
from shoal.apiserver.server import ServerComponents
from shoal.client.kubeconfig import KubeconfigError
from shoal.client.transport import Unreachable
from shoal.fleet.tunnel.disclosure import bearer_token
from shoal.fleet.tunnel.paths import HostedPath, local_request, parse_hosted_path
from shoal.fleet.tunnel.worker_end import error_response
from shoal.fleet.worker.kind.endpoint import endpoint_of_secret
from shoal.fleet.worker.kind.objects import KEY, secret_value
from shoal.fleet.worker.kind.proxy import HeaderPairs, ImpersonatedUser, KindProxy, impersonation_headers
from shoal.fleet.worker.subscriber.decide import version_of
from shoal.kinds.clusterapi.embedded import logical_cluster_name, owner_of_logical_cluster
from shoal.kinds.fleet import infrav1, kindhosting
from shoal.kinds.fleet.access import HubUserToken, HubUserTokenRequest
from shoal.objects.conditions import get_condition
from shoal.objects.errors import BadRequest, Unauthorized, Unavailable
from shoal.objects.wire import Answer, Handler, Request

Object = dict[str, Any]

MAX_ACCEPTED = 4_096
"""Tokens that kind clusters have accepted, as digests: only their holders learn that a cluster does not answer."""
MAX_CACHED_COPIES = 16_384
REVIEWS_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class KindClusters:
    def __init__(self, core: ServerComponents, own_handler: Handler) -> None:
        """`own_handler` is the worker's own server."""
        self._core, self._own_handler = core, own_handler
        self._copies = core.cache.resource_cache(infrav1.GROUP, "managedclusters")
        self._secrets = core.cache.resource_cache("", "secrets")
        self._signer = TokenSigner(self._signing_keys, core.tokens.issuer)
        self._proxies: dict[tuple[str, str], tuple[int, KindProxy]] = {}
        """With the revision of the Secret each was built from."""
        self._closing: set[asyncio.Task[None]] = set()
        self._kind_copies: dict[tuple[str, str], tuple[int, Object | None]] = {}
        """Copies of kind clusters, None for other copies, with their revisions."""
        self._secrets.add_event_handler(ROOT, self._on_secret)
        self._digest_key = os.urandom(32)
        self._accepted: set[bytes] = set()

    async def close(self) -> None:
        for _, proxy in self._proxies.values():
            await proxy.close()
        self._proxies.clear()
        await asyncio.gather(*self._closing)

    def _on_secret(self, change: CacheEvent) -> None:
        """The kubeconfig of a cluster that is gone."""
        if change.new is not None or not self._proxies:
            return
        key = change.latest.namespace, infrav1.cluster_of_kubeconfig_secret(change.latest.name)
        _, proxy = self._proxies.pop(key, (0, None))
        if proxy is not None:
            self._close_soon(proxy)

    def _close_soon(self, proxy: KindProxy) -> None:
        task = asyncio.get_running_loop().create_task(proxy.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    # --- requests ---

    def handler_for(self, target: HostedPath) -> Handler | None:
        """A `tunnel.agent.ForeignClusters`."""
        return self._handle if self._kind_copy(target.namespace, target.name) is not None else None

    def _handle(self, request: Request) -> Answer | Awaitable[Answer]:
        # A token of the worker itself is not for the API server of a kind cluster: whoever has root in its nodes could
        # read it there.
        if not bearer_token(request) or self._core.authenticator.is_root_token(request):
            return self._own_handler(local_request(request))
        return self._handle_token(request, parse_hosted_path(request.path), bearer_token(request))

    async def _handle_token(self, request: Request, target: HostedPath, token: str) -> Answer:
        user: hub_user_token.VerifiedHubUser | None = None
        if hub_user_token.is_hub_user_token(token):
            try:
                user = self._verify(target, token)
            except Unauthorized:
                return await self._refuse(request)
        digest = self._digest(target, token)
        try:
            proxy = await self._proxy(target)
            if user is not None:
                return await proxy.pass_on_as(request, target, await self._identity(proxy, request, target, user))
            answer = await proxy.pass_on(request, target)
        except (Unreachable, Unavailable, KubeconfigError) as error:
            if user is None and digest not in self._accepted:
                return await self._refuse(request)
            title = f"ManagedCluster {target.namespace}/{target.name}"
            message = f"{title} does not answer at its worker: {error}"
            # A response: for the hub an error would say that the worker does not answer.
            return error_response(Unavailable(message, retry_after=1))
        if answer.status == 401:
            self._accepted.discard(digest)
            return await self._refuse(request)
        if len(self._accepted) >= MAX_ACCEPTED:
            self._accepted.clear()
        self._accepted.add(digest)
        return answer

    async def _refuse(self, request: Request) -> Answer:
        answer = self._own_handler(local_request(request))
        return await answer if isinstance(answer, Awaitable) else answer

    async def _identity(
        self, proxy: KindProxy, request: Request, target: HostedPath, user: hub_user_token.VerifiedHubUser
    ) -> HeaderPairs:
        """Returns the Impersonate headers: of the user, or of whom the user impersonates and may impersonate."""
        if not all(name.isascii() and name.isprintable() for name in (user.name, *user.groups)):
            raise BadRequest("in a kind cluster the names of hub users and their groups must be printable ASCII")
        impersonation = parse_headers(request, logical_cluster_name(target.namespace, target.name))
        if impersonation is None:
            return ImpersonatedUser(user.name, user.groups).headers
        for check in impersonation.checks:
            await self._authorize(proxy, user, check)
        return impersonation_headers(request)

    async def _authorize(self, proxy: KindProxy, user: hub_user_token.VerifiedHubUser, check: Attributes) -> None:
        attributes = {
            "verb": check.verb,
            "group": check.group,
            "version": check.version,
            "resource": check.resource,
            "subresource": check.subresource,
            "namespace": check.namespace,
            "name": check.name,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user.name,
                "groups": [*user.groups, "system:authenticated"],
                "resourceAttributes": {key: value for key, value in attributes.items() if value},
            },
        }
        status, body = await proxy.read("POST", REVIEWS_PATH, orjson.dumps(review))
        result = orjson.loads(body).get("status") or {} if status == 201 else {}
        if result.get("allowed") is not True:
            raise forbidden(User(user.name, user.groups), check)

    # --- tokens of hub users ---

    def is_kind(self, namespace: str, name: str) -> bool:
        return self._kind_copy(namespace, name) is not None

    def issue(self, token_request: HubUserTokenRequest) -> HubUserToken:
        """Raises Unavailable while the cluster does not have the key or the roles."""
        namespace, name, uid, user, seconds = (
            *(token_request.namespace, token_request.name, token_request.uid),
            *(token_request.user, token_request.seconds),
        )
        title, cluster = f"ManagedCluster {namespace}/{name}", logical_cluster_name(namespace, name)
        copy = self._kind_copy(namespace, name)
        if copy is None or version_of(copy).uid != uid or not self._signing_keys(cluster):
            raise Unavailable(f"{title} is not running at its worker yet", retry_after=1)
        if infrav1.is_deleting(copy):
            raise Unavailable(f"{title} is being deleted at its worker", retry_after=1)
        granted = get_condition(copy, infrav1.ACCESS_GRANTED) or {}
        if granted.get("observedGeneration") != copy["metadata"].get("generation"):
            detail = f"has no role for {user.hosted_name} yet: see its condition AccessGranted"
            raise Unavailable(f"{title} {detail}", retry_after=1)
        now = self._core.clock.now()
        token, expiry = hub_user_token.issue(self._signer, cluster, uid, user, seconds=seconds, now=now)
        return HubUserToken(token, expiry, self._signer.issuer(cluster))

    def _verify(self, target: HostedPath, token: str) -> hub_user_token.VerifiedHubUser:
        cluster = logical_cluster_name(target.namespace, target.name)
        return hub_user_token.verify(self._signer, token, cluster, self._core.clock.now(), self._uid_of)

    def _uid_of(self, cluster: str) -> str | None:
        """The uid of the ManagedCluster at the hub: a later one of that name has another."""
        copy = self._kind_copy(*owner_of_logical_cluster(cluster))
        return version_of(copy).uid if copy is not None else None

    def _signing_keys(self, cluster: str) -> list[bytes]:
        namespace, name = owner_of_logical_cluster(cluster)
        entry = self._secrets.get(ROOT, namespace, kindhosting.access_secret_name(name))
        key = secret_value(entry.object(), KEY) if entry is not None else b""
        return [key] if key else []

    # --- what the worker has ---

    def _kind_copy(self, namespace: str, name: str) -> Object | None:
        entry = self._copies.get(ROOT, namespace, name)
        if entry is None:
            return None
        revision, copy = self._kind_copies.get((namespace, name), (0, None))
        if revision != entry.revision:
            if len(self._kind_copies) >= MAX_CACHED_COPIES:
                self._kind_copies.clear()
            obj = entry.object()
            copy = obj if kindhosting.is_kind(obj) else None
            self._kind_copies[namespace, name] = entry.revision, copy
        return copy

    async def _proxy(self, target: HostedPath) -> KindProxy:
        key = target.namespace, target.name
        entry = self._secrets.get(ROOT, target.namespace, infrav1.kubeconfig_secret_name(target.name))
        if entry is None:
            raise Unavailable("its API server has not been created yet")
        revision, proxy = self._proxies.get(key, (0, None))
        if proxy is None or revision != entry.revision:
            former, proxy = proxy, KindProxy(endpoint_of_secret(entry.object()))
            self._proxies[key] = entry.revision, proxy
            if former is not None:
                self._close_soon(former)
        return proxy

    def _digest(self, target: HostedPath, token: str) -> bytes:
        text = f"{target.namespace}/{target.name}/{token}".encode(errors="surrogateescape")
        return hashlib.blake2b(text, digest_size=16, key=self._digest_key).digest()
