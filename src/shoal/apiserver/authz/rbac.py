"""RBAC authorizer per logical cluster.

Reads roles and bindings through `RoleGetter` and caches decisions until the cluster's RBAC generation changes, so that
the usual decision is one dict lookup. No I/O, no waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from shoal.apiserver.authn.authenticator import User
from shoal.apiserver.authz.rules import Rule, matches_path, matches_resource, quote, strings
from shoal.apiserver.request.info import ROOT, WILDCARD
from shoal.kinds.rbac.rbac import GROUP
from shoal.objects.errors import Forbidden, InternalError, NotFound

Object = Mapping[str, Any]

MAX_DECISIONS = 65_536
MAX_RULE_SETS = 8_192


class RoleGetter(Protocol):
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


class AuthorizationDecision(NamedTuple):
    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class UserRules:
    """The rules of a user in a namespace, each with the text that names its source."""

    generation: int
    rules: tuple[tuple[Rule, str], ...]
    errors: tuple[str, ...]

    @property
    def policy_rules(self) -> list[Rule]:
        return [rule for rule, _ in self.rules]

    @property
    def error(self) -> str:
        """What could not be resolved, in one sentence; empty if everything was."""
        unique = list(dict.fromkeys(self.errors))
        return unique[0] if len(unique) == 1 else "[" + ", ".join(unique) + "]" if unique else ""


class _CachedDecision(NamedTuple):
    """The cached decision of one question for every object name."""

    generation: int
    by_name: Mapping[str, AuthorizationDecision]
    default: AuthorizationDecision


PartialAuthorizer = Callable[[User, Attributes], AuthorizationDecision | None]
"""An authorizer for some users. Returns None for all others."""


class Authorizer:
    def __init__(self, roles: RoleGetter, special_users: PartialAuthorizer | None = None) -> None:
        """A request that `special_users` allows is allowed. RBAC may still allow what it denies."""
        self._roles = roles
        self._special_users = special_users
        self._decision_cache: dict[str, dict[tuple[object, ...], _CachedDecision]] = {}
        self._rules_cache: dict[str, dict[tuple[object, ...], UserRules]] = {}
        """Both caches are by cluster. `_cached_decisions` and `_cached_rule_sets` count them over all clusters."""
        self._cached_decisions = self._cached_rule_sets = 0

    def authorize(self, user: User, attributes: Attributes) -> AuthorizationDecision:
        cluster, verb, group, _, resource, subresource, namespace, name, path, _, _ = attributes
        if user.cluster != cluster and not user.crosses_clusters:
            return _OTHER_CLUSTER
        if user.privileged:
            return _ALLOWED
        if cluster == WILDCARD:
            # Only users of root may read all clusters at once, by their rights in root.
            return self.authorize(user, attributes._replace(cluster=ROOT))
        special = self._special_users(user, attributes) if self._special_users is not None else None
        if special is not None and special.allowed:
            return special
        key = (user.subject, verb, group, resource, subresource, namespace, "" if resource else path)
        cached = self._decision_cache.get(cluster)
        cached_decision = cached.get(key) if cached is not None else None
        if cached_decision is None or cached_decision.generation != self._roles.generation(cluster):
            if cached_decision is None:
                self._cached_decisions += 1
            cached_decision = self._evaluate(user, attributes)
            if self._cached_decisions > MAX_DECISIONS:
                self._decision_cache.clear()
                self._cached_decisions = 1
            self._decision_cache.setdefault(cluster, {})[key] = cached_decision
        decision = cached_decision.by_name.get(name, cached_decision.default)
        return decision if decision.allowed or special is None else special

    def forget(self, cluster: str) -> None:
        """Drops the cached decisions of a cluster."""
        self._cached_decisions -= len(self._decision_cache.pop(cluster, ()))
        self._cached_rule_sets -= len(self._rules_cache.pop(cluster, ()))

    def rules_for(self, user: User, cluster: str, namespace: str) -> UserRules:
        """The rules that apply to the user there. A user of another cluster has none."""
        generation = self._roles.generation(cluster)
        key = (user.subject, namespace)
        cached = self._rules_cache.get(cluster)
        user_rules = cached.get(key) if cached is not None else None
        if user_rules is None or user_rules.generation != generation:
            if user_rules is None:
                self._cached_rule_sets += 1
            user_rules = self._resolve_rules(user, cluster, namespace, generation)
            if self._cached_rule_sets > MAX_RULE_SETS:
                self._rules_cache.clear()
                self._cached_rule_sets = 1
            self._rules_cache.setdefault(cluster, {})[key] = user_rules
        return user_rules

    def role_rules(self, cluster: str, role_ref: Object, namespace: str) -> Sequence[Rule]:
        """The rules of the role a binding refers to."""
        kind, name = role_ref.get("kind", ""), role_ref.get("name", "")
        if kind == "Role":
            role = self._roles.role(cluster, namespace, name)
        elif kind == "ClusterRole":
            role = self._roles.cluster_role(cluster, name)
        else:
            raise InternalError(f"unsupported role reference kind: {quote(kind)}")
        if role is None:
            singular = kind.lower()
            raise NotFound(f"{singular}.{GROUP} {quote(name)} not found", name=name, group=GROUP, kind=singular)
        return role.get("rules") or ()

    def _evaluate(self, user: User, attributes: Attributes) -> _CachedDecision:
        _, verb, group, _, resource, subresource, namespace, _, path, _, _ = attributes
        user_rules = self.rules_for(user, attributes.cluster, namespace)
        by_name: dict[str, AuthorizationDecision] = {}
        for rule, source in user_rules.rules:
            if path and not resource:
                if matches_path(rule, verb, path):
                    return _CachedDecision(
                        user_rules.generation, by_name, AuthorizationDecision(True, f"RBAC: allowed by {source}")
                    )
            elif matches_resource(rule, verb, group, resource, subresource):
                allowed = AuthorizationDecision(True, f"RBAC: allowed by {source}")
                names = strings(rule, "resourceNames")
                if not names:
                    return _CachedDecision(user_rules.generation, by_name, allowed)
                for name in names:
                    by_name.setdefault(name, allowed)
        return _CachedDecision(
            user_rules.generation,
            by_name,
            AuthorizationDecision(False, f"RBAC: {user_rules.error}" if user_rules.error else ""),
        )

    def _resolve_rules(self, user: User, cluster: str, namespace: str, generation: int) -> UserRules:
        if user.cluster != cluster and not user.crosses_clusters:
            return UserRules(generation, (), ())
        rules: list[tuple[Rule, str]] = []
        errors: list[str] = []
        bindings = [(binding, "") for binding in self._roles.cluster_role_bindings(cluster)]
        if namespace:
            bindings += [(binding, namespace) for binding in self._roles.role_bindings(cluster, namespace)]
        for binding, scope in bindings:
            subject = _applying_subject(user, binding, scope)
            if subject is None:
                continue
            try:
                granted = self.role_rules(cluster, binding["roleRef"], scope)
            except (NotFound, InternalError) as problem:
                errors.append(problem.message)
                continue
            source = _describe_source(binding, subject, scope)
            rules += [(rule, source) for rule in granted]
        return UserRules(generation, tuple(rules), tuple(errors))


_ALLOWED = AuthorizationDecision(True)
_OTHER_CLUSTER = AuthorizationDecision(False, "the user belongs to another cluster")


def forbidden(user: User, attributes: Attributes, reason: str = "") -> Forbidden:
    """The 403 of a request that was denied."""
    _, verb, group, _, resource, subresource, namespace, name, path, _, _ = attributes
    who = f"User {quote(user.name)} cannot {verb}"
    if path and not resource:
        message = f"{who} path {quote(path)}"
    else:
        what = quote(f"{resource}/{subresource}" if subresource else resource)
        where = f"in the namespace {quote(namespace)}" if namespace else "at the cluster scope"
        message = f"{who} resource {what} in API group {quote(group)} {where}"
    # Names come from the request: an error page must not contain markup.
    message = message.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return forbidden_object(group, resource, name, f"{message}: {reason}" if reason else message)


def forbidden_object(group: str, resource: str, name: str, detail: str) -> Forbidden:
    """`roles.rbac.authorization.k8s.io "x" is forbidden: …`"""
    title = f"{resource}.{group}" if group else resource
    if name and title:
        title += f" {quote(name)}"
    message = f"{title} is forbidden: {detail}" if title else f"forbidden: {detail}"
    return Forbidden(message, name=name, group=group, kind=resource)


def _applying_subject(user: User, binding: Object, namespace: str) -> Object | None:
    for subject in binding.get("subjects") or ():
        kind, name = subject.get("kind"), subject.get("name")
        if kind == "User":
            applies = user.name == name
        elif kind == "Group":
            applies = name in user.groups
        else:
            account_namespace = subject.get("namespace") or namespace
            applies = (
                kind == "ServiceAccount"
                and account_namespace != ""
                and user.name == f"system:serviceaccount:{account_namespace}:{name}"
            )
        if applies:
            match: Object = subject
            return match
    return None


def _describe_source(binding: Object, subject: Object, namespace: str) -> str:
    name = binding["metadata"]["name"]
    kind, label = ("RoleBinding", f"{name}/{namespace}") if namespace else ("ClusterRoleBinding", name)
    who = subject["name"]
    if subject["kind"] == "ServiceAccount":
        who += f"/{subject.get('namespace') or namespace}"
    role = binding["roleRef"]
    return f"{kind} {quote(label)} of {role['kind']} {quote(role['name'])} to {subject['kind']} {quote(who)}"
