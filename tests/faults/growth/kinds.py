"""Every field of a kind, grown: each string, each list and each map, in every form a body has.

A field that several kinds share (of a container, of metadata) is grown in every way in the first kind that has it, and
in one way in the others.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from zlib import crc32

from shoal.objects import errors, protobuf
from tests.faults.growth.cases import (
    PATCHES,
    PROTOBUF,
    Case,
    Group,
    Step,
    compact,
    follow,
    own_name,
    reads,
    removal,
    send,
)
from tests.faults.growth.fields import (
    GROWN,
    ITEM,
    NUMBER,
    VALUE,
    Field,
    Object,
    distinct,
    numbered,
    placed,
    product,
    walk,
)
from tests.faults.growth.texts import (
    FORMS,
    KB,
    LIGHT,
    MB,
    NEAR_LIMIT,
    STORED,
    TEXTS,
    quoted,
    repeat,
    repeat_pairs,
    size_name,
    text_of,
)

LANGUAGES = ("expression", "schedule", "jsonpath", "pattern", "selector", "rule", "cel", "labels")
"""Parts of the names of fields whose text is read as a language."""
FORM_SIZES = (LIGHT, 300 * KB)
FILLINGS = ("distinct", "same", "empty", "null", "long")
PRODUCT = 70
SMALL = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"small"}}'
SMALL_POD = (
    '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"small"},"spec":{"containers":[{"name":"a","image":"a"}]}}'
)


@dataclass(frozen=True)
class Target:
    """A kind whose fields are grown."""

    group: Group
    collection: str
    schema: Object
    owner: str
    """The name of its schema."""
    sample: Callable[[str], Object]
    """A valid object of that name."""
    base: Object
    """One that the group's setup makes."""
    kept: bool = True
    """It can be read and deleted; reviews cannot."""
    status: bool = False
    """It has that subresource."""


class Growth:
    """The cases of one kind. `seen` has the fields that kinds before it had."""

    def __init__(self, target: Target, seen: set[str]) -> None:
        self._target, self._seen = target, seen
        self._group, self.collection, self._schema = target.group, target.collection, target.schema
        self._base = target.base
        self._base_path = f"{self.collection}/{self._base['metadata']['name']}"
        self._kept = target.kept

    def cases(self) -> Iterator[Case]:
        for field in walk(self._schema, (), self._target.owner, (self._target.owner,)):
            fresh = field.owner not in self._seen
            self._seen.add(field.owner)
            if field.path[0] == "status" and not self._target.status:
                continue
            yield from self._texts(field, fresh) if field.kind == "string" else self._members(field, fresh)

    # --- strings ---

    def _texts(self, field: Field, fresh: bool) -> Iterator[Case]:
        names = [*TEXTS]
        if any(word in "".join(field.path[-2:]).lower() for word in LANGUAGES):
            names += FORMS
        if not fresh:
            names = [names[crc32(f"{self._group.name} {field.name}".encode()) % len(names)]]
        for name in names:
            yield self._one_text(field, name, LIGHT)
        if fresh:
            yield self._one_text(field, "letters", NEAR_LIMIT)

    def _one_text(self, field: Field, name: str, size: int) -> Case:
        def steps() -> Iterator[Step]:
            text = text_of(name, size)
            if field.schema.get("format") == "byte":
                text = base64.b64encode(text.encode()[: size * 3 // 4]).decode()
            yield self._write(field, quoted(text), self._object(field), dry=True)

        return Case(self._group, f"{field.name} {name} {size_name(size)} dry-run", steps)

    # --- lists and maps ---

    def _members(self, field: Field, fresh: bool) -> Iterator[Case]:
        if not fresh:
            yield self._life(field, "distinct", LIGHT, dry=True)
            return
        for filling in FILLINGS:
            yield self._life(field, filling, LIGHT)
        yield self._life(field, "distinct", STORED)
        if self._drawn(field, 3):
            yield self._life(field, "distinct", NEAR_LIMIT)
            yield self._life(field, "empty", MB)
        if field.kind == "list" and product(field.schema, 1) is not None:
            yield self._life(field, "product", PRODUCT)
        if not self._kept or field.path[0] == "status":
            return
        for size in FORM_SIZES if self._drawn(field, 2) else FORM_SIZES[:1]:
            for form in ("yaml", "protobuf", "update", "merge", "strategic", "json"):
                yield self._form(field, form, size)
            yield self._applies(field, size)

    def _drawn(self, field: Field, one_of: int) -> bool:
        """Whether it is one of the fields for which there is time to be very large; always the same ones."""
        return len(field.path) < 3 or crc32(f"{self._group.name} {field.name}".encode()) % one_of == 0

    def _grown(self, field: Field, filling: str, size: int) -> str:
        if filling == "product":
            return compact([product(field.schema, size)])
        one = distinct(field.schema, field.path)
        if filling == "same":
            first = one(0)
            return (
                repeat(lambda _: first, size) if field.kind == "list" else repeat_pairs(lambda _: f'"a":{first}', size)
            )
        if filling == "long" and one(0).startswith('"'):
            one = numbered(" " * 1000 + NUMBER)
        if filling in ("empty", "null"):
            empty = "null" if filling == "null" else '""' if one(0).startswith('"') else "{}"
            one = lambda _: empty  # noqa: E731
        if field.kind == "map":
            return repeat_pairs(lambda number: f'"k{number}":{one(number)}', size)
        return repeat(one, size)

    def _life(self, field: Field, filling: str, size: int, dry: bool = False) -> Case:
        what = f"{field.name} {filling} {size if filling == 'product' else size_name(size)}"
        case = f"{self._group.name} {what}"

        def steps() -> Iterator[Step]:
            obj = self._object(field, case)
            yield self._write(field, self._grown(field, filling, size), obj, dry=dry)
            if self._kept and not dry and field.path[0] != "status":
                name = str(obj["metadata"]["name"])
                yield from reads(self.collection, name, protobuf=True)
                yield follow("small", "POST", "/api/v1/namespaces/default/configmaps?dryRun=All", SMALL)
                yield follow("small pod", "POST", "/api/v1/namespaces/default/pods?dryRun=All", SMALL_POD)
                yield from removal(self.collection, name)

        return Case(self._group, f"{what} {'dry-run' if dry else 'life'}", steps)

    def _form(self, field: Field, form: str, size: int) -> Case:
        what = f"{field.name} distinct {size_name(size)} {form}"

        def steps() -> Iterator[Step]:
            grown = self._grown(field, "distinct", size)
            if form in ("yaml", "protobuf"):
                name = own_name(what)
                text = placed(self._target.sample(name), self._schema, field.path).replace(GROWN, grown)
                try:
                    body = protobuf.encode(json.loads(text)) if form == "protobuf" else text
                except errors.StatusError:
                    return
                content = PROTOBUF if form == "protobuf" else "application/yaml"
                yield send(form, "POST", f"{self.collection}?dryRun=All", body, content, Accept="application/yaml")
            elif form == "update":
                text = placed(self._base, self._schema, field.path).replace(GROWN, grown)
                yield send(form, "PUT", f"{self._base_path}?dryRun=All", text)
            elif form == "json":
                pointer = "/" + "/".join("0" if part == ITEM else "a" if part == VALUE else part for part in field.path)
                where = f'"path":"{pointer}","value":{grown}'
                patch = f'[{{"op":"add",{where}}},{{"op":"test",{where}}}]'
                yield send(form, "PATCH", f"{self._base_path}?dryRun=All", patch, PATCHES[form])
            else:
                text = placed({}, self._schema, field.path).replace(GROWN, grown)
                yield send(form, "PATCH", f"{self._base_path}?dryRun=All", text, PATCHES[form])

        return Case(self._group, what, steps)

    def _applies(self, field: Field, size: int) -> Case:
        """By two managers, then by the first with half of it, then a strategic patch of what is there."""
        what = f"{field.name} distinct {size_name(size)} applies"
        case = f"{self._group.name} {what}"

        def steps() -> Iterator[Step]:
            obj = self._object(field, case)
            text = placed(obj, self._schema, field.path)
            whole, half = self._grown(field, "distinct", size), self._grown(field, "distinct", size // 2)
            path = f"{self.collection}/{obj['metadata']['name']}"
            content = PATCHES["apply"]
            yield send("apply", "PATCH", f"{path}?fieldManager=one", text.replace(GROWN, whole), content)
            for name, manager, grown in (("apply by another", "two&force=true", whole), ("apply less", "one", half)):
                body = text.replace(GROWN, grown)
                yield follow(name, "PATCH", f"{path}?fieldManager={manager}", body, Content_Type=content)
            patch = placed({}, self._schema, field.path).replace(GROWN, whole)
            yield follow("strategic", "PATCH", path, patch, Content_Type=PATCHES["strategic"])
            yield from removal(self.collection, str(obj["metadata"]["name"]))

        return Case(self._group, what, steps)

    # --- both ---

    def _object(self, field: Field, case: str = "") -> Object:
        obj = self._target.sample(own_name(case) if case else "grown")
        if field.path[:2] == ("metadata", "name"):
            obj["metadata"] = {}
        return obj

    def _write(self, field: Field, grown: str, obj: Object, dry: bool) -> Step:
        query = "?dryRun=All" if dry else ""
        if field.path[0] == "status" and self._kept:
            text = placed(self._base, self._schema, field.path).replace(GROWN, grown)
            return send("status", "PUT", f"{self._base_path}/status{query}", text)
        text = placed(obj, self._schema, field.path).replace(GROWN, grown)
        return send("create", "POST", f"{self.collection}{query}", text)
