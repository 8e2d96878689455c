"""RBAC authorizer per logical cluster.

Reads roles and bindings through `RoleGetter` and caches decisions until the cluster's RBAC generation changes, so that
the usual decision is one dict lookup. No I/O, no waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, Protocol

from shoal.apiserver.authn.authenticator import User
from shoal.apiserver.authz.role_rules import RoleRules
from shoal.apiserver.authz.rules import Rule, quote, strings
from shoal.apiserver.request.info import ROOT, WILDCARD
from shoal.kinds.rbac.rbac import GROUP
from shoal.objects.errors import Forbidden, InternalError, NotFound, Unavailable

Object = Mapping[str, Any]

MAX_DECISIONS = 65_536
MAX_ATTEMPTS = 10
"""Evaluations of a request whose cluster's roles change meanwhile."""


class RoleGetter(Protocol):
    """Provides the RBAC objects of every logical cluster."""

    def cluster_role_bindings(self, cluster: str, user: User) -> Iterable[Object]:
        """Those that name the user or one of its groups; perhaps others."""

    def role_bindings(self, cluster: str, namespace: str, user: User) -> Iterable[Object]: ...

    def cluster_role(self, cluster: str, name: str) -> RoleRules | None: ...

    def role(self, cluster: str, namespace: str, name: str) -> RoleRules | None: ...

    def drop_derived(self, cluster: str) -> None:
        """Drops what the next request rebuilds."""

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
class Grant:
    """A role that a binding gives to a user."""

    role: RoleRules
    binding: Object
    subject: Object
    """What names the user in the binding."""
    namespace: str
    """Of the binding; empty for a ClusterRoleBinding."""

    @property
    def source(self) -> str:
        """Names the binding, in the reason of a decision."""
        return _describe_source(self.binding, self.subject, self.namespace)


@dataclass(frozen=True, slots=True)
class UserRules:
    """The rules of a user in a namespace. A role that several bindings give is there once."""

    policy_rules: list[Rule]
    error: str
    """What could not be resolved, in one sentence; empty if everything was."""


def _sentence(errors: Collection[str]) -> str:
    return "".join(errors) if len(errors) < 2 else "[" + ", ".join(errors) + "]"


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
        """By cluster. `_cached_decisions` counts them over all clusters."""
        self._cached_decisions = 0

    def authorize(self, user: User, attributes: Attributes) -> AuthorizationDecision:
        return self._known_decision(user, attributes) or _result(self._decide(user, attributes))

    def authorize_steps(
        self, user: User, attributes: Attributes
    ) -> AuthorizationDecision | Generator[None, None, AuthorizationDecision]:
        """As `authorize`. Returns steps if many roles may have to be searched, one for each binding."""
        return self._known_decision(user, attributes) or self._decide(user, attributes)

    def _known_decision(self, user: User, attributes: Attributes) -> AuthorizationDecision | None:
        """The decision of most requests: one lookup. Returns None if there is none yet."""
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
            return None
        decision = cached_decision.by_name.get(name, cached_decision.default)
        return decision if decision.allowed or special is None else special

    def _decide(self, user: User, attributes: Attributes) -> Generator[None, None, AuthorizationDecision]:
        """Decides by the roles and keeps the decision."""
        cluster, verb, group, _, resource, subresource, namespace, _, path, _, _ = attributes
        key = (user.subject, verb, group, resource, subresource, namespace, "" if resource else path)
        for _ in range(MAX_ATTEMPTS):
            evaluated = yield from self._evaluate(user, attributes)
            if evaluated.generation == self._roles.generation(cluster):
                break
        else:
            # A binding and a role of different times must not be combined.
            raise Unavailable("the roles of the cluster change too fast to be evaluated", retry_after=1)
        decisions = self._decision_cache.setdefault(cluster, {})
        if key not in decisions:
            self._cached_decisions += 1
            if self._cached_decisions > MAX_DECISIONS:
                self._decision_cache.clear()
                self._cached_decisions = 1
                decisions = self._decision_cache[cluster] = {}
        decisions[key] = evaluated
        decision = self._known_decision(user, attributes)
        assert decision is not None
        return decision

    def forget(self, cluster: str) -> None:
        """Drops the cached decisions of a cluster, and what they were derived from."""
        self._roles.drop_derived(cluster)
        self._cached_decisions -= len(self._decision_cache.pop(cluster, ()))

    def rules_for(self, user: User, cluster: str, namespace: str, enough: int | None = None) -> UserRules:
        """The rules that apply to the user there. A user of another cluster has none. Stops after `enough` rules."""
        rules: list[Rule] = []
        errors: dict[str, None] = {}
        for grant in self._grants(user, cluster, namespace, errors):
            if grant is not None:
                rules += grant.role.rules
            if enough is not None and len(rules) >= enough:
                break
        return UserRules(rules, _sentence(errors))

    def role_rules(self, cluster: str, role_ref: Object, namespace: str) -> Sequence[Rule]:
        """The rules of the role a binding refers to."""
        return self._role(cluster, role_ref, namespace).rules

    def _role(self, cluster: str, role_ref: Object, namespace: str) -> RoleRules:
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
        return role

    def _evaluate(self, user: User, attributes: Attributes) -> Generator[None, None, _CachedDecision]:
        cluster, verb, group, _, resource, subresource, namespace, _, path, _, _ = attributes
        generation = self._roles.generation(cluster)
        by_name: dict[str, AuthorizationDecision] = {}
        errors: dict[str, None] = {}
        is_path = bool(path) and not resource
        for grant in self._grants(user, cluster, namespace, errors):
            yield
            if grant is None:
                continue
            if is_path:
                matching = grant.role.matching_path(verb, path)
            else:
                matching = grant.role.matching_resource(verb, group, resource, subresource)
            for rule in matching:
                allowed = AuthorizationDecision(True, f"RBAC: allowed by {grant.source}")
                names = () if is_path else strings(rule, "resourceNames")
                if not names:
                    return _CachedDecision(generation, by_name, allowed)
                for name in names:
                    by_name.setdefault(name, allowed)
        reason = f"RBAC: {_sentence(errors)}" if errors else ""
        return _CachedDecision(generation, by_name, AuthorizationDecision(False, reason))

    def _grants(self, user: User, cluster: str, namespace: str, errors: dict[str, None]) -> Iterator[Grant | None]:
        """Yields the roles of a user, each once, and None for a binding that adds nothing. Fills in what could not be
        resolved.
        """
        if user.cluster != cluster and not user.crosses_clusters:
            return
        bindings: Iterator[tuple[Object, str]] = (
            (binding, "") for binding in self._roles.cluster_role_bindings(cluster, user)
        )
        if namespace:
            in_namespace = self._roles.role_bindings(cluster, namespace, user)
            bindings = chain(bindings, ((binding, namespace) for binding in in_namespace))
        granted: set[tuple[str, str, str]] = set()
        for binding, scope in bindings:
            yield None
            subject, role_ref = _applying_subject(user, binding, scope), binding["roleRef"]
            kind, name = role_ref.get("kind", ""), role_ref.get("name", "")
            role_key = kind, name, scope if kind == "Role" else ""
            if subject is None or role_key in granted:
                continue
            granted.add(role_key)
            try:
                role = self._role(cluster, role_ref, scope)
            except (NotFound, InternalError) as problem:
                errors[problem.message] = None
                continue
            yield Grant(role, binding, subject, scope)


def _result(steps: Generator[None, None, AuthorizationDecision]) -> AuthorizationDecision:
    """Runs all steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            decision: AuthorizationDecision = done.value
            return decision


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
