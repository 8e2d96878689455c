"""FlowSchemas and PriorityLevelConfigurations of a logical cluster, parsed once per change, and the flow of a request.

The objects of a cluster order only its own requests. Its users cannot change its share compared with other clusters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.apiserver.authn.authenticator import SERVICE_ACCOUNT_PREFIX, User
from shoal.apiserver.cache.cacher import CacheEvent, ResourceCache, WatchCache
from shoal.apiserver.request.info import RequestInfo

GROUP = "flowcontrol.apiserver.k8s.io"
FLOW_SCHEMA_HEADER = "X-Kubernetes-PF-FlowSchema-UID"
PRIORITY_LEVEL_HEADER = "X-Kubernetes-PF-PriorityLevel-UID"
MAX_CACHED_FLOWS = 8192
EXEMPT_SHARES, EXEMPT_QUEUE_LENGTH = 1000, 1000
"""Values for requests a cluster exempts: first among its own requests, but in fair order with other clusters."""

Object = dict[str, Any]
Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PriorityLevel:
    """A parsed PriorityLevelConfiguration."""

    name: str
    uid: str = ""
    is_exempt: bool = False
    shares: int = 0
    lendable_percent: int = 0
    """Percent of its seats that other levels may borrow."""
    borrowing_limit_percent: int | None = None
    """Percent of its seats that it may borrow from others. None: no limit."""
    is_queuing: bool = False
    """Excess requests are queued instead of rejected."""
    max_queued_per_flow: int = 0
    """Maximum of queued requests of one flow."""
    max_queued: int = 0
    """Maximum of queued requests of all its flows."""


@dataclass(frozen=True, slots=True)
class Flow:
    cluster: str
    level: PriorityLevel
    name: str
    """The FlowSchema name and the flow distinguisher (user or namespace)."""
    headers: Headers

    @property
    def body_owner(self) -> tuple[str, str]:
        """Whose share of the memory for bodies a request takes. Requests that another server answers share one, since
        anybody can make up a target.
        """
        cluster = self.cluster
        return (cluster.split("/", 2)[1] if cluster.startswith("/") else cluster), self.name


@dataclass(frozen=True, slots=True)
class FlowSchema:
    name: str
    uid: str
    level: PriorityLevel
    distinguisher_method: str
    rules: tuple[Object, ...]

    def matches(self, user: User, verb: str, target: RequestInfo) -> bool:
        return any(
            any(_matches_subject(subject, user) for subject in rule.get("subjects") or ())
            and (
                any(_matches_resource_rule(each, verb, target) for each in rule.get("resourceRules") or ())
                if target.is_resource
                else any(
                    _matches_non_resource_rule(each, verb, target.path) for each in rule.get("nonResourceRules") or ()
                )
            )
            for rule in self.rules
        )

    def distinguisher(self, user: User, target: RequestInfo) -> str:
        if self.distinguisher_method == "ByUser":
            return user.name
        return target.namespace if self.distinguisher_method == "ByNamespace" else ""


class FlowSchemas:
    """FlowSchemas of every logical cluster. `flow_of` is called for every request."""

    def __init__(self, cache: WatchCache) -> None:
        self._schema_cache = cache.resource_cache(GROUP, "flowschemas")
        self._level_cache = cache.resource_cache(GROUP, "prioritylevelconfigurations")
        self._schemas_by_cluster: dict[str, tuple[FlowSchema, ...]] = {}
        self._cached_flows: dict[tuple[Any, ...], Flow] = {}
        for kind in (self._schema_cache, self._level_cache):
            kind.add_event_handler("*", self._on_event)

    def flow_of(self, cluster: str, user: User, verb: str, target: RequestInfo) -> Flow:
        scope = target.namespace if target.is_resource else target.path
        key = (cluster, user.subject, verb, target.group, target.plural, target.subresource, scope)
        flow = self._cached_flows.get(key)
        if flow is None:
            if len(self._cached_flows) >= MAX_CACHED_FLOWS:
                self._cached_flows.clear()
            flow = self._cached_flows[key] = self._match_flow(cluster, user, verb, target)
        return flow

    def levels(self, cluster: str) -> tuple[PriorityLevel, ...]:
        return tuple({schema.level.name: schema.level for schema in self._schemas_of(cluster)}.values())

    def invalidate(self, cluster: str) -> None:
        self._schemas_by_cluster.pop(cluster, None)
        self._cached_flows.clear()

    def _on_event(self, event: CacheEvent) -> None:
        self.invalidate(event.cluster)

    def _match_flow(self, cluster: str, user: User, verb: str, target: RequestInfo) -> Flow:
        for schema in self._schemas_of(cluster):
            if schema.matches(user, verb, target):
                headers = (FLOW_SCHEMA_HEADER, schema.uid), (PRIORITY_LEVEL_HEADER, schema.level.uid)
                return Flow(cluster, schema.level, f"{schema.name}/{schema.distinguisher(user, target)}", headers)
        # Only a cluster that does not exist has no catch-all.
        return Flow(cluster, PriorityLevel("catch-all"), "catch-all/", ())

    def _schemas_of(self, cluster: str) -> tuple[FlowSchema, ...]:
        schemas = self._schemas_by_cluster.get(cluster)
        if schemas is None:
            schemas = self._schemas_by_cluster[cluster] = parse_flow_schemas(
                _objects(self._schema_cache, cluster), _objects(self._level_cache, cluster)
            )
        return schemas


def _objects(kind: ResourceCache, cluster: str) -> list[Object]:
    return [entry.object() for entry in kind.table(cluster).select("")]


def parse_flow_schemas(schemas: list[Object], levels: list[Object]) -> tuple[FlowSchema, ...]:
    """Returns the FlowSchemas in matching order. As upstream, a schema whose priority level does not exist is
    skipped.
    """
    levels_by_name = {obj["metadata"]["name"]: _parse_priority_level(obj) for obj in levels}
    ordered = [
        (obj["spec"]["matchingPrecedence"], obj["metadata"]["name"], obj)
        for obj in schemas
        if obj["spec"]["priorityLevelConfiguration"].get("name") in levels_by_name
    ]
    return tuple(
        FlowSchema(
            name,
            obj["metadata"]["uid"],
            levels_by_name[obj["spec"]["priorityLevelConfiguration"]["name"]],
            (obj["spec"].get("distinguisherMethod") or {}).get("type", ""),
            tuple(obj["spec"].get("rules") or ()),
        )
        for _, name, obj in sorted(ordered, key=lambda each: each[:2])
    )


def _parse_priority_level(obj: Object) -> PriorityLevel:
    name, uid, spec = obj["metadata"]["name"], obj["metadata"]["uid"], obj["spec"]
    if spec["type"] == "Exempt":
        return PriorityLevel(
            name,
            uid,
            is_exempt=True,
            shares=EXEMPT_SHARES,
            is_queuing=True,
            max_queued_per_flow=EXEMPT_QUEUE_LENGTH,
            max_queued=EXEMPT_QUEUE_LENGTH,
        )
    limited = spec["limited"]
    queuing = (limited.get("limitResponse") or {}).get("queuing") or {}
    return PriorityLevel(
        name,
        uid,
        shares=limited["nominalConcurrencyShares"],
        lendable_percent=limited.get("lendablePercent") or 0,
        borrowing_limit_percent=limited.get("borrowingLimitPercent"),
        is_queuing=bool(queuing),
        max_queued_per_flow=queuing.get("handSize", 0) * queuing.get("queueLengthLimit", 0),
        max_queued=queuing.get("queues", 0) * queuing.get("queueLengthLimit", 0),
    )


def _matches_subject(subject: Object, user: User) -> bool:
    kind = subject.get("kind")
    if kind == "User":
        return subject["user"]["name"] in ("*", user.name)
    if kind == "Group":
        name = subject["group"]["name"]
        return name == "*" or name in user.groups
    account = subject["serviceAccount"]
    if account["name"] == "*":
        return user.name.startswith(f"{SERVICE_ACCOUNT_PREFIX}{account['namespace']}:")
    return user.name == f"{SERVICE_ACCOUNT_PREFIX}{account['namespace']}:{account['name']}"


def _matches_resource_rule(rule: Object, verb: str, target: RequestInfo) -> bool:
    full_resource = f"{target.plural}/{target.subresource}" if target.subresource else target.plural
    if not (
        _allows(rule, "verbs", verb)
        and _allows(rule, "apiGroups", target.group)
        and _allows(rule, "resources", full_resource)
    ):
        return False
    if not target.namespace:
        return bool(rule.get("clusterScope"))
    return _allows(rule, "namespaces", target.namespace)


def _matches_non_resource_rule(rule: Object, verb: str, path: str) -> bool:
    if not _allows(rule, "verbs", verb):
        return False
    return any(
        url == path or url == "*" or (url.endswith("/*") and path.startswith(url[:-1]))
        for url in rule.get("nonResourceURLs") or ()
    )


def _allows(rule: Object, field: str, value: str) -> bool:
    values = rule.get(field) or ()
    return value in values or "*" in values
