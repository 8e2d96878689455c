"""Custom kinds: every format, pattern, list type, rule and printer column, on values that are grown."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.objects.schema.formats import FORMATS
from tests.faults.growth.cases import Case, Group, Step, Steps, compact, own_name, reads, removal, send
from tests.faults.growth.fields import Object
from tests.faults.growth.kinds import Growth, Target
from tests.faults.growth.texts import KB, LIGHT, MB, TEXTS, quoted, size_name, text_of
from tests.serving import DEFINITIONS

GROWERS = "/apis/example.com/v1/namespaces/default/growers"
TEXT: Object = {"type": "string"}
NUMBER: Object = {"type": "integer"}
ANYTHING: Object = {"x-kubernetes-preserve-unknown-fields": True}
PATTERNS = ["(a+)+$", "(a|a)*b", "^(.*a){15}$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(a?){500}a{500}", r"^(\d+)*$"]
FORMAT_SIZES = (8 * KB, LIGHT)
SHORT = 1000
"""Bytes of a text that is shorter than what formats refuse for its length alone; there are many of them."""


def array(items: Object, **more: object) -> Object:
    return {"type": "array", "items": items, **more}


def mapping(values: Object, **more: object) -> Object:
    return {"type": "object", "additionalProperties": values, **more}


def record(*required: str, **properties: Object) -> Object:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def map_list(*keys: str, **more: Object) -> Object:
    items = record(*keys, **dict.fromkeys(keys, TEXT), **more)
    return array(items, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)})


SHAPES: dict[str, Object] = {
    "atomic": array(TEXT, **{"x-kubernetes-list-type": "atomic"}),
    "set": array(TEXT, **{"x-kubernetes-list-type": "set"}),
    "numbers": array(NUMBER, **{"x-kubernetes-list-type": "set"}),
    "map": map_list("name", count={"type": "integer", "default": 1}),
    "map2": map_list("name", "other", inner=map_list("name", set=array(TEXT, **{"x-kubernetes-list-type": "set"}))),
    "lists": array(array(array(TEXT))),
    "maps": mapping(mapping(mapping(TEXT))),
    "anything": ANYTHING,
    "port": {"x-kubernetes-int-or-string": True},
    "ports": array({"x-kubernetes-int-or-string": True}),
    "object": {"type": "object", "x-kubernetes-embedded-resource": True, **ANYTHING},
    "objects": array({"type": "object", "x-kubernetes-embedded-resource": True, **ANYTHING}),
    "defaults": array(record(a=dict(TEXT, default="a" * 50), b=dict(record(c=dict(TEXT, default="c")), default={}))),
    "enum": {**TEXT, "enum": [f"e{number}" for number in range(300)]},
    "enums": array({**TEXT, "enum": [f"e{number}" for number in range(300)]}),
    "short": array({**TEXT, "maxLength": 5}),
    "few": array(TEXT, maxItems=5),
    "any": array({**TEXT, "anyOf": [{"pattern": f"^{number}"} for number in range(30)]}),
    "one": array({**TEXT, "oneOf": [{"minLength": number} for number in range(1, 30)]}),
    "nullable": array({**TEXT, "nullable": True}),
    "number": array({"type": "number", "multipleOf": 0.5}),
}  # fmt: skip


def definition(spec: Object, *, columns: list[str] | None = None, versions: int = 1) -> Object:
    schema = {"openAPIV3Schema": record(spec=spec, status=dict(ANYTHING, type="object"))}
    served: Object = {"schema": schema, "served": True, "subresources": {"status": {}}}
    if columns:
        served["additionalPrinterColumns"] = [
            {"name": f"c{number}", "type": "string", "jsonPath": path} for number, path in enumerate(columns)
        ]
    made = [{"name": f"v{number + 1}", "storage": not number, **served} for number in range(versions)]
    names = {"kind": "Grower", "plural": "growers", "singular": "grower", "listKind": "GrowerList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "growers.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": made},
    }


def grower(name: str, **spec: object) -> Object:
    return {"apiVersion": "example.com/v1", "kind": "Grower", "metadata": {"name": name}, "spec": spec}


def defined(name: str, spec: Object, columns: list[str] | None = None) -> Group:
    """A group whose cluster serves growers with that spec, and has one."""

    def setup() -> Iterator[Step]:
        yield send("definition", "POST", DEFINITIONS, compact(definition(spec, columns=columns)))
        yield Step("established", "GET", GROWERS)
        yield send("base", "POST", GROWERS, compact(grower("base")))

    return Group(name, setup)


def custom_cases() -> Iterator[Case]:
    yield from _formats()
    yield from _shapes()
    yield from _columns()


def _formats() -> Iterator[Case]:
    fields = {f"f-{name}": {**TEXT, "format": name} for name in FORMATS}
    fields |= {f"p{number}": {**TEXT, "pattern": pattern} for number, pattern in enumerate(PATTERNS)}
    group = defined("custom-formats", record(**fields))
    for field in fields:
        for name in TEXTS:
            for size in FORMAT_SIZES:
                yield Case(group, f"spec.{field} {name} {size_name(size)} dry-run", _text(field, name, size))
    lists = {name: array(value) for name, value in fields.items()}
    group = defined("custom-format-lists", record(**lists))
    for field in lists:
        for name in TEXTS:
            yield Case(group, f"spec.{field} 25 {name} dry-run", _text(field, name, SHORT, 25))


def _text(field: str, name: str, size: int, count: int = 0) -> Steps:
    def steps() -> Iterator[Step]:
        text = quoted(text_of(name, size))
        grown = f"[{','.join([text] * count)}]" if count else text
        body = compact(grower("grown", **{field: "@"})).replace('"@"', grown)
        yield send("create", "POST", f"{GROWERS}?dryRun=All", body)

    return steps


def _shapes() -> Iterator[Case]:
    spec = record(**SHAPES)
    group = defined("custom-shapes", spec)
    schema = definition(spec)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    target = Target(group, GROWERS, schema, "growers", grower, grower("base"), status=True)
    yield from Growth(target, set()).cases()


COLUMNS = [
    "..a", "..*", "..a..a..a", ".spec..a..a", ".spec.l[*].l[*].l[*].a", ".spec.l[*].l[*]..a", ".spec.l[?(@.a=='b')].a",
    ".spec.l[?(@.a<'b')].l[?(@.a!='b')].a", ".spec.l[0:100000].a", ".spec.l[*]", ".spec", ".metadata",
    ".spec.s", "..*..*", "..*..*..*", ".spec.l[*].*.*.*", ".spec.m.*", ".spec..l[*]", ".spec.l[-1:0:1]",
]  # fmt: skip


def _columns() -> Iterator[Case]:
    """One column each: a bad one is refused with its definition."""
    inner = [{"a": str(number), "l": [{"a": "a", "l": [{"a": "a"}] * 10}] * 10} for number in range(200)]
    deep: Object = {}
    for _ in range(60):
        deep = {"a": deep, "l": [deep] if len(compact(deep)) < 20_000 else []}
    values = {
        "wide": {"l": inner, "m": {f"k{number}": "a" for number in range(2000)}},
        "deep": {"l": [deep], "a": deep},
        "long": {"s": "a" * MB, "l": [{"a": "a" * 1000}] * 500},
    }
    for number, path in enumerate(COLUMNS):
        group = defined(f"custom-column-{number}", {"type": "object", **ANYTHING}, [path] * 5)
        for name, spec in values.items():
            yield Case(group, f"{path.replace(' ', '')} {name} life", _kept(f"{path} {name}", spec))
    for name in (
        "jsonpath",
        "jsonpath-deep",
        "jsonpath-all",
        "jsonpath-open",
        "jsonpath-filter",
        "spaces",
        "brackets",
        "quotes",
    ):
        for size in (10 * KB, 100 * KB):
            yield Case(Group("custom-columns"), f"jsonPath {name} {size_name(size)} life", _column(name, size))


def _kept(case: str, spec: object) -> Steps:
    def steps() -> Iterator[Step]:
        name = own_name(case)
        yield send("create", "POST", GROWERS, compact({**grower(name), "spec": spec}))
        yield from reads(GROWERS, name)
        yield from removal(GROWERS, name)

    return steps


def _column(name: str, size: int) -> Steps:
    def steps() -> Iterator[Step]:
        prefix = "" if name.startswith("jsonpath") else ".a"
        made = definition({"type": "object", **ANYTHING}, columns=[prefix + text_of(name, size)])
        yield send("create", "POST", DEFINITIONS, compact(made))
        deep: Object = {}
        for _ in range(100):
            deep = {"a": deep}
        yield send("object", "POST", GROWERS, compact({**grower("grown", a=deep)}))
        yield from reads(GROWERS, "grown")
        yield from removal(DEFINITIONS, "growers.example.com")

    return steps
