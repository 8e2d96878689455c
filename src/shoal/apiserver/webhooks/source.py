"""The webhooks of each logical cluster, read from the cache once per change. A cluster without webhooks costs two
lookups.

Upstream's order: configurations by name, and in each the webhooks as written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shoal.apiserver.cache.cacher import CacheEvent, ResourceCache, WatchCache
from shoal.apiserver.registry.matching import RuleMatchCache
from shoal.apiserver.registry.registry import Registry, Resource
from shoal.apiserver.webhooks.client import HTTPTransport, WebhookClient
from shoal.kinds.admissionregistration.webhook_client import EXEMPT_GROUP, Webhook, webhooks_of


@dataclass(frozen=True, slots=True, eq=False)
class WebhookInvocation:
    webhook: Webhook
    index: int
    """Position among all webhooks of its type in the cluster, as counted in audit annotations."""
    resource: Resource
    """The resource version the object is sent in, whatever version was written."""


MatchedWebhooks = tuple[tuple[WebhookInvocation, ...], tuple[WebhookInvocation, ...]]
"""Mutating and validating webhooks whose rules match a write."""
NO_WEBHOOKS: MatchedWebhooks = ((), ())


class ClusterWebhooks:
    def __init__(self, mutating: tuple[Webhook, ...], validating: tuple[Webhook, ...]) -> None:
        self.mutating, self.validating = mutating, validating
        self._match_cache = RuleMatchCache(self._match_rules)

    def match(self, registry: Registry, operation: str, resource: Resource, subresource: str) -> MatchedWebhooks:
        return (
            NO_WEBHOOKS
            if resource.group == EXEMPT_GROUP
            else self._match_cache.get(registry, operation, resource, subresource)
        )

    def _match_rules(
        self, operation: str, resource: Resource, subresource: str, others: list[Resource]
    ) -> MatchedWebhooks:
        return (
            _matching_webhooks(self.mutating, operation, resource, subresource, others),
            _matching_webhooks(self.validating, operation, resource, subresource, others),
        )


class WebhookSource:
    def __init__(
        self,
        cache: WatchCache,
        open_transport: Callable[[], HTTPTransport],
        discloses_failures: Callable[[str], bool] = lambda cluster: True,
    ) -> None:
        self.client = WebhookClient(cache, open_transport, discloses_failures)
        self._mutating = cache.resource_cache(EXEMPT_GROUP, "mutatingwebhookconfigurations")
        self._validating = cache.resource_cache(EXEMPT_GROUP, "validatingwebhookconfigurations")
        self._clusters: dict[str, ClusterWebhooks] = {}
        for kind in (self._mutating, self._validating):
            kind.add_event_handler("*", self._on_configuration)

    def for_cluster(self, cluster: str) -> ClusterWebhooks | None:
        """Returns None if the cluster has none."""
        if cluster not in self._mutating.tables and cluster not in self._validating.tables:
            return None
        webhooks = self._clusters.get(cluster)
        if webhooks is None:
            webhooks = self._clusters[cluster] = ClusterWebhooks(
                _webhooks_of(self._mutating, cluster), _webhooks_of(self._validating, cluster)
            )
        return webhooks if webhooks.mutating or webhooks.validating else None

    def forget(self, cluster: str) -> None:
        self._clusters.pop(cluster, None)
        self.client.forget(cluster)

    def _on_configuration(self, event: CacheEvent) -> None:
        self._clusters.pop(event.cluster, None)


def _webhooks_of(resource_cache: ResourceCache, cluster: str) -> tuple[Webhook, ...]:
    table = resource_cache.tables.get(cluster)
    return tuple(hook for entry in table.select("") for hook in webhooks_of(entry.object())) if table else ()


def _matching_webhooks(
    hooks: tuple[Webhook, ...], operation: str, resource: Resource, subresource: str, others: list[Resource]
) -> tuple[WebhookInvocation, ...]:
    invocations = []
    for index, hook in enumerate(hooks):
        matched = _matched_resource(hook, operation, resource, subresource, others)
        if matched is not None:
            invocations.append(WebhookInvocation(hook, index, matched))
    return tuple(invocations)


def _matched_resource(
    hook: Webhook, operation: str, resource: Resource, subresource: str, others: list[Resource]
) -> Resource | None:
    """The written version if a rule matches it; else the equivalent the first matching rule names."""
    for candidates in ([resource],) if hook.exact_match else ([resource], others):
        for rule in hook.rules:
            for each in candidates:
                if rule.matches(operation, each.group, each.version, each.plural, subresource, each.namespaced):
                    return each
    return None
