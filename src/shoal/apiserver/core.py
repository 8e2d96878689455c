"""What every verb gets: the server's components (`ServerComponents`) and the current request (`RequestContext`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from shoal.apiserver.authn import Authenticator, User
from shoal.apiserver.authz import Authorizer
from shoal.apiserver.cache import Cache, Entry, Kind
from shoal.apiserver.clusters import Clusters, LogicalCluster
from shoal.apiserver.fairness.flows import Flows
from shoal.apiserver.locks import Locks, Place
from shoal.apiserver.negotiate import View
from shoal.apiserver.paths import Target
from shoal.apiserver.policies.configurations import Policies
from shoal.apiserver.registry import Resource
from shoal.apiserver.tokens import TokenSigner
from shoal.apiserver.webhooks.configurations import Webhooks
from shoal.clock import Clock
from shoal.objects.errors import BadRequest, NotFound, show
from shoal.objects.names import is_path_segment_name
from shoal.objects.wire import Request
from shoal.store.interface import Store


@dataclass(frozen=True, slots=True)
class Dice:
    """Source of uids, generated names and random fractions. Tests use a deterministic one."""

    uid: Callable[[], str]
    suffix: Callable[[], str]
    """Five characters for generateName."""
    fraction: Callable[[], float]
    """A number in [0, 1) that spreads work over time."""


@dataclass(frozen=True, slots=True)
class Core:
    store: Store
    cache: Cache
    clusters: Clusters
    authenticator: Authenticator
    authorizer: Authorizer
    tokens: TokenSigner
    clock: Clock
    dice: Dice
    webhooks: Webhooks
    policies: Policies
    flows: Flows
    locks: Locks = field(default_factory=Locks)


@dataclass(slots=True)
class Call:
    request: Request
    target: Target
    verb: str
    user: User
    cluster: LogicalCluster
    resource: Resource
    kind: Kind
    view: View
    query: dict[str, str]
    warnings: list[str] = field(default_factory=list)
    annotations: dict[str, str] | None = None
    """Audit annotations set by webhooks and policies."""
    turns: tuple[Place, ...] = ()
    """Locks this request holds (`write.locks`)."""

    @property
    def name(self) -> str:
        return self.target.name

    @property
    def namespace(self) -> str:
        return self.target.namespace

    def entry(self) -> Entry | None:
        return self.kind.get(self.target.cluster, self.target.namespace, self.target.name)

    def found(self) -> Entry:
        entry = self.entry()
        if entry is None:
            raise self.not_found()
        return entry

    def not_found(self, name: str = "") -> NotFound | BadRequest:
        name = name or self.target.name
        if problems := is_path_segment_name(name):
            # No object can have such a name. Upstream reports it at lookup.
            return BadRequest(f"Name parameter invalid: {show(name)}: {';'.join(problems)}")
        return NotFound(
            f'{self.resource.group_resource} "{name}" not found',
            name=name,
            group=self.resource.group,
            kind=self.resource.plural,
        )
