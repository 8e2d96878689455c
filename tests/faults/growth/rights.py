"""Roles whose rules multiply, and who asks about them; expressions that policies and definitions evaluate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.faults.growth.cases import Case, Group, Step, Steps, compact, follow, own_name, removal, send
from tests.faults.growth.customs import GROWERS, NUMBER, TEXT, array, definition, grower, mapping, record
from tests.faults.growth.texts import KB, MB
from tests.serving import DEFINITIONS

Object = dict[str, Any]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES, BINDINGS = f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings"
REVIEWS = "/apis/authorization.k8s.io/v1"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
LIMITED = "limited"


def names(count: int, letter: str = "a") -> list[str]:
    return [f"{letter}{number}" for number in range(count)]


def rule(groups: int, resources: int, verbs: int, objects: int = 0) -> Object:
    found: Object = {
        "apiGroups": names(groups), "resources": names(resources, "r"), "verbs": names(verbs, "v"),
    }  # fmt: skip
    return {**found, "resourceNames": names(objects, "n")} if objects else found


RULES: dict[str, list[Object]] = {
    "70x70x70": [rule(70, 70, 70)],
    "30x30x30x30": [rule(30, 30, 30, 30)],
    "300x300": [rule(1, 300, 300)],
    "5000 rules": [{"apiGroups": [f"a{number}"], "resources": ["r"], "verbs": ["get"]} for number in range(5000)],
    "1000 rules 5x5x5": [rule(5, 5, 5)] * 1000,
    "1 rule 50000 names": [rule(1, 1, 1, 50_000)],
    "30000 urls": [{"nonResourceURLs": [f"/a{number}/*" for number in range(30_000)], "verbs": ["get"]}],
    "stars": [{"apiGroups": ["*"], "resources": [f"*/s{number}" for number in range(30_000)], "verbs": ["*"]}],
}


def right_cases() -> Iterator[Case]:
    group = Group("rights", _setup)
    for name, rules in RULES.items():
        yield Case(group, f"role {name} life", _role(name, rules))
        yield Case(group, f"role {name} by limited", _role(name, rules, Impersonate_User=LIMITED))
        yield Case(group, f"role {name} bound", _bound(name, rules))
    many = [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name} for name in names(30_000)]
    yield Case(group, "binding 30000 subjects", _binding("subjects", many))
    yield Case(group, "5000 groups", _asked({"groups": names(5000)}))
    yield Case(group, "100000 groups", _asked({"groups": names(100_000)}))
    yield Case(group, "aggregation 5000 selectors", _aggregation(5000))
    yield from policy_cases()
    yield from rule_cases()
    yield from definition_cases()


def _setup() -> Iterator[Step]:
    role = {"metadata": {"name": LIMITED}, "rules": [
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        *({"apiGroups": [f"a{number}"], "resources": names(20, "r"), "verbs": names(20, "v")} for number in range(20)),
    ]}  # fmt: skip
    role["rules"][0]["verbs"] = ["create", "update", "patch", "get", "list", "delete"]  # type: ignore[index]
    yield send("role", "POST", ROLES, compact(role))
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": LIMITED}
    yield send("binding", "POST", BINDINGS, compact(binding(LIMITED, LIMITED, [subject])))


def binding(name: str, role: str, subjects: list[Object]) -> Object:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    return {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}


def _role(case: str, rules: list[Object], **headers: str) -> Steps:
    def steps() -> Iterator[Step]:
        name = own_name(f"{case} {headers}")
        body = compact({"metadata": {"name": name}, "rules": rules})
        yield send("create", "POST", ROLES, body, **headers)
        yield follow("get", "GET", f"{ROLES}/{name}")
        yield from removal(ROLES, name)

    return steps


def _bound(case: str, rules: list[Object]) -> Steps:
    """To everybody: each request of the cluster is asked about it."""

    def steps() -> Iterator[Step]:
        name = own_name(f"{case} bound")
        subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "somebody"}
        yield send("create", "POST", ROLES, compact({"metadata": {"name": name}, "rules": rules}))
        made = compact(binding(name, name, [subject]))
        yield follow("bind by limited", "POST", BINDINGS, made, Impersonate_User=LIMITED)
        yield follow("bind", "POST", BINDINGS, made)
        for who in ("somebody", LIMITED):
            spec = compact({"spec": {"namespace": "default"}})
            yield follow(f"rules of {who}", "POST", f"{REVIEWS}/selfsubjectrulesreviews", spec, Impersonate_User=who)
            yield follow(f"get by {who}", "GET", CONFIG_MAPS, Impersonate_User=who)
        yield from removal(BINDINGS, name)
        yield from removal(ROLES, name)

    return steps


def _binding(case: str, subjects: list[Object]) -> Steps:
    def steps() -> Iterator[Step]:
        name = own_name(case)
        yield send("create", "POST", BINDINGS, compact(binding(name, "view", subjects)))
        yield follow("get by a1", "GET", CONFIG_MAPS, Impersonate_User="a1")
        yield follow("get by nobody", "GET", CONFIG_MAPS, Impersonate_User="nobody")
        yield from removal(BINDINGS, name)

    return steps


def _asked(spec: Object) -> Steps:
    whole = {"user": "a", "resourceAttributes": {"verb": "get", "resource": "pods"}, **spec}
    return lambda: [send("review", "POST", f"{REVIEWS}/subjectaccessreviews", compact({"spec": whole}))]


def _aggregation(count: int) -> Steps:
    def steps() -> Iterator[Step]:
        name = own_name("aggregation")
        selectors = [{"matchLabels": {f"k{number}": "a"}} for number in range(count)]
        body = {"metadata": {"name": name}, "aggregationRule": {"clusterRoleSelectors": selectors}}
        yield send("create", "POST", ROLES, compact(body))
        yield from removal(ROLES, name)

    return steps


EXPRESSIONS = {
    "all in all": "V.l.all(a, V.l.all(b, a <= b + 100000))",
    "exists in all": "V.l.all(a, V.l.exists(b, a == b))",
    "map of map": "V.l.map(a, V.l.map(b, a + b)).size() > 0",
    "concatenation": "V.l.map(a, V.s + V.s).size() > 0",
    "contains": "V.l.all(a, V.s.contains('aaaaaaaaaaaaaaab') == false)",
    "matches": "V.s.matches('(a+)+$')",
    "matches nested": "V.s.matches('^(a?){50}a{50}$')",
    "matches of text": "V.s.matches(V.s)",
    "replace": "V.s.replace('a', 'aaaaaaaaaaaaaaaaaaaa').size() > 0",
    "split": "V.s.split('').size() > 0",
    "join": "V.l.map(a, V.s).join(V.s).size() > 0",
    "findAll": "V.s.findAll('a').size() > 0",
    "find": "V.s.find('a*b') == ''",
    "indexOf": "V.s.indexOf('aaaaaaab') < 0",
    "lowerAscii": "V.l.all(a, V.s.lowerAscii() == V.s)",
    "format": "V.l.all(a, '%s%s%s'.format([V.s, V.s, V.s]).size() > 0)",
    "sets": "sets.intersects(V.l, V.l)",
    "sets contains": "sets.contains(V.l, V.l)",
    "sets equivalent": "sets.equivalent(V.l, V.l)",
    "list equals": "V.l.all(a, V.l == V.l)",
    "list plus": "(V.l + V.l + V.l + V.l).size() > 0",
    "in": "V.l.all(a, a in V.l)",
    "sum": "V.l.sum() > 0",
    "indexOf list": "V.l.all(a, V.l.indexOf(a) >= 0)",
    "sorted": "V.l.isSorted()",
    "keys": "V.m.all(k, V.m.exists(j, j == k))",
    "url": "isURL(V.s)",
    "quantity": "isQuantity(V.s)",
    "ip": "isIP(V.s)",
    "cidr": "isCIDR(V.s)",
    "int": "V.s == string(int('1'))",
    "duration": "duration(V.s) == duration('1h')",
    "timestamp": "timestamp(V.s) == timestamp('2024-01-01T00:00:00Z')",
    "base64": "base64.encode(bytes(V.s)).size() > 0",
    "format named": "!format.dns1123Subdomain().validate(V.s).hasValue()",
    "semver": "isSemver(V.s)",
    "quote": "strings.quote(V.s).size() > 0",
}
BINDING = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
VALUES = ((200, KB), (5000, 100 * KB), (100_000, MB))


def policy_cases() -> Iterator[Case]:
    """Policies see any object: growers without a schema."""
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

    def setup() -> Iterator[Step]:
        yield send("definition", "POST", DEFINITIONS, compact(definition(spec)))

    for number, (name, expression) in enumerate(EXPRESSIONS.items()):
        group = Group(f"policy-{number}", setup)
        for length, size in VALUES:
            yield Case(
                group, f"{name} {length} life", _policy(expression.replace("V.", "dyn(object.spec)."), length, size)
            )


def _policy(expression: str, length: int, size: int) -> Steps:
    def steps() -> Iterator[Step]:
        match = {"apiGroups": ["example.com"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
        spec = {"matchConstraints": {"resourceRules": [match]}, "validations": [{"expression": expression}]}
        yield send("create", "POST", POLICIES, compact({"metadata": {"name": "p"}, "spec": spec}))
        bound = {"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}
        yield follow("bind", "POST", BINDING, compact(bound))
        yield follow("object", "POST", f"{GROWERS}?dryRun=All", compact(value(length, size)))
        yield follow("object again", "POST", f"{GROWERS}?dryRun=All", compact(value(length, size)))
        yield from removal(BINDING, "p")
        yield from removal(POLICIES, "p")

    return steps


def value(length: int, size: int) -> Object:
    keys = {f"k{number}": "a" for number in range(min(length, 20_000))}
    return grower("grown", l=list(range(length)), s="a" * size, m=keys)


def rule_cases() -> Iterator[Case]:
    """The same in a definition; without limits in the schema most are refused for what they may cost."""
    for bounded in (False, True):
        for name, expression in EXPRESSIONS.items():
            what = f"{name} {'bounded' if bounded else 'unbounded'} life"
            yield Case(Group("rules"), what, _rule(expression.replace("V.", "self."), bounded))


def _rule(expression: str, bounded: bool) -> Steps:
    most: Object = {"maxItems": 500} if bounded else {}
    spec = record(
        l=array(NUMBER, **most),
        s=dict(TEXT, maxLength=20_000) if bounded else TEXT,
        m=mapping(TEXT, **({"maxProperties": 300} if bounded else {})),
    )
    spec["x-kubernetes-validations"] = [{"rule": expression}]

    def steps() -> Iterator[Step]:
        yield send("create", "POST", DEFINITIONS, compact(definition(spec)))
        for length, size in [(300, 20_000)] if bounded else VALUES:
            yield follow(f"object {length}", "POST", f"{GROWERS}?dryRun=All", compact(value(length, size)))
        yield from removal(DEFINITIONS, "growers.example.com")

    return steps


def definition_cases() -> Iterator[Case]:
    deep: Object = dict(TEXT)
    for _ in range(60):
        deep = record(a=deep)
    wide = record(**{f"p{number}": {"type": "string", "format": "date"} for number in range(20_000)})
    tree: Object = dict(TEXT)
    for _ in range(6):
        tree = record(a=tree, b=tree, c=tree, d=tree, e=tree)
    rules = record(s=dict(TEXT, maxLength=10))
    rules["x-kubernetes-validations"] = [{"rule": f"self.s != 'a{number}'"} for number in range(3000)]
    schemas = {
        "deep": deep, "wide": wide, "tree": tree, "rules": rules,
        "enum": record(e=dict(TEXT, enum=names(100_000))),
        "default": {**record(l=array(NUMBER)), "default": {"l": list(range(200_000))}},
        "defaults": record(l=array(record(**{f"p{number}": dict(TEXT, default="a" * 50) for number in range(500)}))),
        "any of": record(s={**TEXT, "anyOf": [{"pattern": f"a{number}"} for number in range(20_000)]}),
        "description": record(s=dict(TEXT, description="a" * 2 * MB)),
        "pattern": record(s=dict(TEXT, pattern="(a{1,500}){1,500}")),
        "patterns": record(**{f"p{number}": dict(TEXT, pattern=f"(a{{1,{number + 1}}}b?)+$") for number in range(900)}),
    }  # fmt: skip
    for name, spec in schemas.items():
        yield Case(Group("definitions"), f"schema {name} life", _definition(definition(spec), name))
    few = record(s=TEXT)
    yield Case(Group("definitions"), "versions 300 life", _definition(definition(few, versions=300), "versions"))
    columns = definition(few, columns=[".spec.s"] * 5000)
    yield Case(Group("definitions"), "columns 5000 life", _definition(columns, "columns"))
    short = definition(few)
    short["spec"]["names"] |= {"shortNames": names(30_000), "categories": names(30_000)}
    yield Case(Group("definitions"), "short names 30000 life", _definition(short, "short"))


def _definition(made: Object, name: str) -> Steps:
    def steps() -> Iterator[Step]:
        yield send("create", "POST", DEFINITIONS, compact(made))
        spec: Object = {"s": "a" * KB}
        if name == "defaults":
            spec = {"l": [{}] * 3000}
        if name == "patterns":
            spec = {f"p{number}": "a" * 1000 for number in range(900)}
        yield follow("object", "POST", GROWERS, compact(grower("grown", **spec)))
        yield follow("list", "GET", GROWERS)
        yield follow("table", "GET", GROWERS, Accept="application/json;as=Table;g=meta.k8s.io;v=v1")
        yield follow("openapi", "GET", "/openapi/v3/apis/example.com/v1")
        yield follow("whole openapi", "GET", "/openapi/v2")
        yield follow("discovery", "GET", "/apis/example.com/v1")
        yield follow("yaml", "GET", f"{DEFINITIONS}/growers.example.com", Accept="application/yaml")
        yield from removal(DEFINITIONS, "growers.example.com")

    return steps
