"""What every verb gets: the server's components (`ServerComponents`) and the current request (`RequestContext`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from shoal.apiserver.authn.authenticator import Authenticator, User
from shoal.apiserver.authn.serviceaccount_token import TokenSigner
from shoal.apiserver.authz import Authorizer
from shoal.apiserver.cache.cacher import CachedObject, ResourceCache, WatchCache
from shoal.apiserver.flowcontrol.flowschema import FlowSchemas
from shoal.apiserver.keyed_locks import KeyedLocks, LockKey
from shoal.apiserver.registry.clusters import LogicalCluster, LogicalClusters
from shoal.apiserver.registry.policy_source import PolicySource
from shoal.apiserver.registry.registry import Resource
from shoal.apiserver.request.info import RequestInfo
from shoal.apiserver.response.negotiation import OutputMediaType
from shoal.apiserver.webhooks.source import WebhookSource
from shoal.clock import Clock
from shoal.objects.errors import BadRequest, NotFound, format_value
from shoal.objects.names import is_path_segment_name
from shoal.objects.wire import Request
from shoal.store.interface import Store


@dataclass(frozen=True, slots=True)
class NameGenerator:
    """Source of uids, generated names and random fractions. Tests use a deterministic one."""

    uid: Callable[[], str]
    suffix: Callable[[], str]
    """Five characters for generateName."""
    fraction: Callable[[], float]
    """A number in [0, 1) that spreads work over time."""


@dataclass(frozen=True, slots=True)
class ServerComponents:
    store: Store
    cache: WatchCache
    clusters: LogicalClusters
    authenticator: Authenticator
    authorizer: Authorizer
    tokens: TokenSigner
    clock: Clock
    name_generator: NameGenerator
    webhooks: WebhookSource
    policies: PolicySource
    flow_schemas: FlowSchemas
    locks: KeyedLocks = field(default_factory=KeyedLocks)


@dataclass(slots=True)
class RequestContext:
    request: Request
    info: RequestInfo
    verb: str
    user: User
    cluster: LogicalCluster
    resource: Resource
    resource_cache: ResourceCache
    output: OutputMediaType
    query: dict[str, str]
    warnings: list[str] = field(default_factory=list)
    audit_annotations: dict[str, str] | None = None
    """Audit annotations set by webhooks and policies."""
    held_locks: tuple[LockKey, ...] = ()
    """Locks this request holds (`write.locks`)."""

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def namespace(self) -> str:
        return self.info.namespace

    def cached_object(self) -> CachedObject | None:
        return self.resource_cache.get(self.info.cluster, self.info.namespace, self.info.name)

    def require_object(self) -> CachedObject:
        entry = self.cached_object()
        if entry is None:
            raise self.not_found()
        return entry

    def not_found(self, name: str = "") -> NotFound | BadRequest:
        name = name or self.info.name
        if problems := is_path_segment_name(name):
            # No object can have such a name. Upstream reports it at lookup.
            return BadRequest(f"Name parameter invalid: {format_value(name)}: {';'.join(problems)}")
        return NotFound(
            f'{self.resource.group_resource} "{name}" not found',
            name=name,
            group=self.resource.group,
            kind=self.resource.plural,
        )
