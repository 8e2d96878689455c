"""FlowSchemas and PriorityLevelConfigurations of a logical cluster, parsed once per change, and the flow of a request.

The objects of a cluster order only its own requests. Its users cannot change its share compared with other clusters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.apiserver.authn import SERVICE_ACCOUNT_PREFIX, User
from shoal.apiserver.cache import Cache, Change, Kind
from shoal.apiserver.paths import Target

GROUP = "flowcontrol.apiserver.k8s.io"
SCHEMA_HEADER = "X-Kubernetes-PF-FlowSchema-UID"
LEVEL_HEADER = "X-Kubernetes-PF-PriorityLevel-UID"
MOST_REMEMBERED = 8192
EXEMPT_SHARES, EXEMPT_WAITING = 1000, 1000
"""Values for requests a cluster exempts: first among its own requests, but in fair order with other clusters."""

Object = dict[str, Any]
Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Level:
    """A parsed PriorityLevelConfiguration."""

    name: str
    uid: str = ""
    exempt: bool = False
    shares: int = 0
    lendable: int = 0
    """Percent of its seats that other levels may borrow."""
    borrowing: int | None = None
    """Percent of its seats that it may borrow from others. None: no limit."""
    queues: bool = False
    """Excess requests are queued instead of rejected."""
    longest: int = 0
    """Maximum of queued requests of one flow."""
    most: int = 0
    """Maximum of queued requests of all its flows."""


@dataclass(frozen=True, slots=True)
class Flow:
    cluster: str
    level: Level
    name: str
    """The FlowSchema name and the flow distinguisher (user or namespace)."""
    headers: Headers


@dataclass(frozen=True, slots=True)
class Schema:
    name: str
    uid: str
    level: Level
    distinguisher: str
    rules: tuple[Object, ...]

    def matches(self, user: User, verb: str, target: Target) -> bool:
        return any(
            any(_is_subject(subject, user) for subject in rule.get("subjects") or ())
            and (
                any(_is_resource(each, verb, target) for each in rule.get("resourceRules") or ())
                if target.is_resource
                else any(_is_path(each, verb, target.path) for each in rule.get("nonResourceRules") or ())
            )
            for rule in self.rules
        )

    def tells_apart(self, user: User, target: Target) -> str:
        if self.distinguisher == "ByUser":
            return user.name
        return target.namespace if self.distinguisher == "ByNamespace" else ""


class Flows:
    """FlowSchemas of every logical cluster. `flow_of` is called for every request."""

    def __init__(self, cache: Cache) -> None:
        self._schemas = cache.kind(GROUP, "flowschemas")
        self._levels = cache.kind(GROUP, "prioritylevelconfigurations")
        self._read: dict[str, tuple[Schema, ...]] = {}
        self._known: dict[tuple[Any, ...], Flow] = {}
        for kind in (self._schemas, self._levels):
            kind.listen("*", self._changed)

    def of(self, cluster: str, user: User, verb: str, target: Target) -> Flow:
        place = target.namespace if target.is_resource else target.path
        key = (cluster, user.subject, verb, target.group, target.plural, target.subresource, place)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            found = self._known[key] = self._find(cluster, user, verb, target)
        return found

    def levels(self, cluster: str) -> tuple[Level, ...]:
        return tuple({schema.level.name: schema.level for schema in self._of_cluster(cluster)}.values())

    def forget(self, cluster: str) -> None:
        self._read.pop(cluster, None)
        self._known.clear()

    def _changed(self, change: Change) -> None:
        self.forget(change.cluster)

    def _find(self, cluster: str, user: User, verb: str, target: Target) -> Flow:
        for schema in self._of_cluster(cluster):
            if schema.matches(user, verb, target):
                headers = (SCHEMA_HEADER, schema.uid), (LEVEL_HEADER, schema.level.uid)
                return Flow(cluster, schema.level, f"{schema.name}/{schema.tells_apart(user, target)}", headers)
        # Only a cluster that does not exist has no catch-all.
        return Flow(cluster, Level("catch-all"), "catch-all/", ())

    def _of_cluster(self, cluster: str) -> tuple[Schema, ...]:
        found = self._read.get(cluster)
        if found is None:
            found = self._read[cluster] = read_schemas(
                _objects(self._schemas, cluster), _objects(self._levels, cluster)
            )
        return found


def _objects(kind: Kind, cluster: str) -> list[Object]:
    return [entry.object() for entry in kind.table(cluster).select("")]


def read_schemas(schemas: list[Object], levels: list[Object]) -> tuple[Schema, ...]:
    """Returns the FlowSchemas in matching order. As upstream, a schema whose priority level does not exist is
    skipped.
    """
    known = {obj["metadata"]["name"]: _level(obj) for obj in levels}
    found = [
        (obj["spec"]["matchingPrecedence"], obj["metadata"]["name"], obj)
        for obj in schemas
        if obj["spec"]["priorityLevelConfiguration"].get("name") in known
    ]
    return tuple(
        Schema(
            name,
            obj["metadata"]["uid"],
            known[obj["spec"]["priorityLevelConfiguration"]["name"]],
            (obj["spec"].get("distinguisherMethod") or {}).get("type", ""),
            tuple(obj["spec"].get("rules") or ()),
        )
        for _, name, obj in sorted(found, key=lambda each: each[:2])
    )


def _level(obj: Object) -> Level:
    name, uid, spec = obj["metadata"]["name"], obj["metadata"]["uid"], obj["spec"]
    if spec["type"] == "Exempt":
        return Level(
            name, uid, exempt=True, shares=EXEMPT_SHARES, queues=True, longest=EXEMPT_WAITING, most=EXEMPT_WAITING
        )
    limited = spec["limited"]
    queuing = (limited.get("limitResponse") or {}).get("queuing") or {}
    return Level(
        name,
        uid,
        shares=limited["nominalConcurrencyShares"],
        lendable=limited.get("lendablePercent") or 0,
        borrowing=limited.get("borrowingLimitPercent"),
        queues=bool(queuing),
        longest=queuing.get("handSize", 0) * queuing.get("queueLengthLimit", 0),
        most=queuing.get("queues", 0) * queuing.get("queueLengthLimit", 0),
    )


def _is_subject(subject: Object, user: User) -> bool:
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


def _is_resource(rule: Object, verb: str, target: Target) -> bool:
    whole = f"{target.plural}/{target.subresource}" if target.subresource else target.plural
    if not (_has(rule, "verbs", verb) and _has(rule, "apiGroups", target.group) and _has(rule, "resources", whole)):
        return False
    if not target.namespace:
        return bool(rule.get("clusterScope"))
    return _has(rule, "namespaces", target.namespace)


def _is_path(rule: Object, verb: str, path: str) -> bool:
    if not _has(rule, "verbs", verb):
        return False
    return any(
        url == path or url == "*" or (url.endswith("/*") and path.startswith(url[:-1]))
        for url in rule.get("nonResourceURLs") or ()
    )


def _has(rule: Object, field: str, value: str) -> bool:
    values = rule.get(field) or ()
    return value in values or "*" in values
