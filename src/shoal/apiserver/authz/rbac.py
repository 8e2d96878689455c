"""RBAC authorizer per logical cluster.

Reads roles and bindings through `RoleGetter` and caches decisions until the cluster's RBAC generation changes, so that
the usual decision is one dict lookup. No I/O, no waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from shoal.apiserver.authn import User
from shoal.apiserver.authz.rules import Rule, matches_path, matches_resource, quoted, strings
from shoal.kinds.rbac import GROUP
from shoal.objects.errors import Forbidden, InternalError, NotFound

Object = Mapping[str, Any]

MAX_DECISIONS = 65_536
MAX_RULE_SETS = 8_192


class RoleSource(Protocol):
    """Provides the RBAC objects of every logical cluster, as wire dicts."""

    def cluster_role_bindings(self, cluster: str) -> Sequence[Object]: ...

    def role_bindings(self, cluster: str, namespace: str) -> Sequence[Object]: ...

    def cluster_role(self, cluster: str, name: str) -> Object | None: ...

    def role(self, cluster: str, namespace: str, name: str) -> Object | None: ...

    def generation(self, cluster: str) -> int:
        """A number that changes with any RBAC object of the cluster and never repeats."""


class Attributes(NamedTuple):
    """Attributes of a request. It is a non-resource request if it has a `path` and no `resource`."""

    cluster: str
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    fields: str = ""
    """The field selector of a list or watch. RBAC ignores it."""
    labels: str = ""
    """The label selector, likewise."""


class Decision(NamedTuple):
    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Held:
    """The rules of a user in a namespace, each with the text that names its source."""

    generation: int
    rules: tuple[tuple[Rule, str], ...]
    errors: tuple[str, ...]

    @property
    def bare(self) -> list[Rule]:
        return [rule for rule, _ in self.rules]

    @property
    def error(self) -> str:
        """What could not be resolved, in one sentence; empty if everything was."""
        unique = list(dict.fromkeys(self.errors))
        return unique[0] if len(unique) == 1 else "[" + ", ".join(unique) + "]" if unique else ""


class _Verdict(NamedTuple):
    """The cached decision of one question for every object name."""

    generation: int
    named: Mapping[str, Decision]
    otherwise: Decision


Opinion = Callable[[User, Attributes], Decision | None]
"""An authorizer for some users. Returns None for all others."""


class Authorizer:
    def __init__(self, source: RoleSource, beside: Opinion | None = None) -> None:
        """A request that `special_users` allows is allowed. RBAC may still allow what it denies."""
        self._source = source
        self._beside = beside
        self._verdicts: dict[str, dict[tuple[object, ...], _Verdict]] = {}
        self._held: dict[str, dict[tuple[object, ...], Held]] = {}
        """Both caches are by cluster. `_cached_decisions` and `_cached_rule_sets` count them over all clusters."""
        self._decisions = self._rule_sets = 0

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        cluster, verb, group, _, resource, subresource, namespace, name, path, _, _ = attributes
        if user.cluster != cluster and not user.crosses_clusters:
            return _STRANGER
        if user.privileged:
            return _ALLOWED
        said = self._beside(user, attributes) if self._beside is not None else None
        if said is not None and said.allowed:
            return said
        key = (user.subject, verb, group, resource, subresource, namespace, "" if resource else path)
        known = self._verdicts.get(cluster)
        verdict = known.get(key) if known is not None else None
        if verdict is None or verdict.generation != self._source.generation(cluster):
            if verdict is None:
                self._decisions += 1
            verdict = self._judge(user, attributes)
            if self._decisions > MAX_DECISIONS:
                self._verdicts.clear()
                self._decisions = 1
            self._verdicts.setdefault(cluster, {})[key] = verdict
        decision = verdict.named.get(name, verdict.otherwise)
        return decision if decision.allowed or said is None else said

    def forget(self, cluster: str) -> None:
        """Drops the cached decisions of a cluster."""
        self._decisions -= len(self._verdicts.pop(cluster, ()))
        self._rule_sets -= len(self._held.pop(cluster, ()))

    def held(self, user: User, cluster: str, namespace: str) -> Held:
        """The rules that apply to the user there. A user of another cluster has none."""
        generation = self._source.generation(cluster)
        key = (user.subject, namespace)
        known = self._held.get(cluster)
        held = known.get(key) if known is not None else None
        if held is None or held.generation != generation:
            if held is None:
                self._rule_sets += 1
            held = self._resolve(user, cluster, namespace, generation)
            if self._rule_sets > MAX_RULE_SETS:
                self._held.clear()
                self._rule_sets = 1
            self._held.setdefault(cluster, {})[key] = held
        return held

    def role_rules(self, cluster: str, role_ref: Object, namespace: str) -> Sequence[Rule]:
        """The rules of the role a binding refers to."""
        kind, name = role_ref.get("kind", ""), role_ref.get("name", "")
        if kind == "Role":
            role = self._source.role(cluster, namespace, name)
        elif kind == "ClusterRole":
            role = self._source.cluster_role(cluster, name)
        else:
            raise InternalError(f"unsupported role reference kind: {quoted(kind)}")
        if role is None:
            singular = kind.lower()
            raise NotFound(f"{singular}.{GROUP} {quoted(name)} not found", name=name, group=GROUP, kind=singular)
        return role.get("rules") or ()

    def _judge(self, user: User, attributes: Attributes) -> _Verdict:
        _, verb, group, _, resource, subresource, namespace, _, path, _, _ = attributes
        held = self.held(user, attributes.cluster, namespace)
        named: dict[str, Decision] = {}
        for rule, source in held.rules:
            if path and not resource:
                if matches_path(rule, verb, path):
                    return _Verdict(held.generation, named, Decision(True, f"RBAC: allowed by {source}"))
            elif matches_resource(rule, verb, group, resource, subresource):
                allowed = Decision(True, f"RBAC: allowed by {source}")
                names = strings(rule, "resourceNames")
                if not names:
                    return _Verdict(held.generation, named, allowed)
                for name in names:
                    named.setdefault(name, allowed)
        return _Verdict(held.generation, named, Decision(False, f"RBAC: {held.error}" if held.error else ""))

    def _resolve(self, user: User, cluster: str, namespace: str, generation: int) -> Held:
        if user.cluster != cluster and not user.crosses_clusters:
            return Held(generation, (), ())
        rules: list[tuple[Rule, str]] = []
        problems: list[str] = []
        bindings = [(binding, "") for binding in self._source.cluster_role_bindings(cluster)]
        if namespace:
            bindings += [(binding, namespace) for binding in self._source.role_bindings(cluster, namespace)]
        for binding, scope in bindings:
            subject = _applying_subject(user, binding, scope)
            if subject is None:
                continue
            try:
                granted = self.role_rules(cluster, binding["roleRef"], scope)
            except (NotFound, InternalError) as problem:
                problems.append(problem.message)
                continue
            source = _describe_source(binding, subject, scope)
            rules += [(rule, source) for rule in granted]
        return Held(generation, tuple(rules), tuple(problems))


_ALLOWED = Decision(True)
_STRANGER = Decision(False, "the user belongs to another cluster")


def forbidden(user: User, attributes: Attributes, reason: str = "") -> Forbidden:
    """The 403 of a request that was denied."""
    _, verb, group, _, resource, subresource, namespace, name, path, _, _ = attributes
    who = f"User {quoted(user.name)} cannot {verb}"
    if path and not resource:
        said = f"{who} path {quoted(path)}"
    else:
        what = quoted(f"{resource}/{subresource}" if subresource else resource)
        where = f"in the namespace {quoted(namespace)}" if namespace else "at the cluster scope"
        said = f"{who} resource {what} in API group {quoted(group)} {where}"
    # Names come from the request: an error page must not contain markup.
    said = said.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return forbidden_object(group, resource, name, f"{said}: {reason}" if reason else said)


def forbidden_object(group: str, resource: str, name: str, said: str) -> Forbidden:
    """`roles.rbac.authorization.k8s.io "x" is forbidden: …`"""
    title = f"{resource}.{group}" if group else resource
    if name and title:
        title += f" {quoted(name)}"
    message = f"{title} is forbidden: {said}" if title else f"forbidden: {said}"
    return Forbidden(message, name=name, group=group, kind=resource)


def _applying_subject(user: User, binding: Object, namespace: str) -> Object | None:
    for subject in binding.get("subjects") or ():
        kind, name = subject.get("kind"), subject.get("name")
        if kind == "User":
            applies = user.name == name
        elif kind == "Group":
            applies = name in user.groups
        else:
            home = subject.get("namespace") or namespace
            applies = kind == "ServiceAccount" and home != "" and user.name == f"system:serviceaccount:{home}:{name}"
        if applies:
            found: Object = subject
            return found
    return None


def _describe_source(binding: Object, subject: Object, namespace: str) -> str:
    name = binding["metadata"]["name"]
    kind, label = ("RoleBinding", f"{name}/{namespace}") if namespace else ("ClusterRoleBinding", name)
    who = subject["name"]
    if subject["kind"] == "ServiceAccount":
        who += f"/{subject.get('namespace') or namespace}"
    role = binding["roleRef"]
    return f"{kind} {quoted(label)} of {role['kind']} {quoted(role['name'])} to {subject['kind']} {quoted(who)}"
