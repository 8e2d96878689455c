"""Random expressions on the object of `samples`: of every type, of any depth."""

from __future__ import annotations

import random
from collections.abc import Callable

LEAVES = {
    "int": ("self.i", "self.j", "3", "0", "-2", "self.o.x", "self.li[1]", "size(self.s)"),
    "double": ("self.n", "1.5", "double(self.i)"),
    "string": ("self.s", "self.t", "self.e", "'ab'", "''", "self.m.k1", "self.ls[0]", "self.o.y__dash__z", "self.ios2"),
    "ints": ("self.li", "[1, 2, 3]", "self.ll[0]", "[self.i, self.o.x]"),
    "strings": ("self.ls", "self.set", "['a', 'b']", "[self.s]"),
    "bool": ("self.b", "true", "false", "has(self.nu)", "has(self.o.x)", "self.i == 3", "self.t == 'abc'"),
}
BRANCHES = {
    "int": (
        "({int} + {int})", "({int} - {int})", "({int} * {int})", "({int} / {int})", "({int} % {int})",
        "size({ints})", "{string}.size()", "({bool} ? {int} : {int})", "{ints}.sum()", "{ints}.max()",
        "int({double})", "{string}.indexOf({string})", "{ints}[{int}]", "self.?o.?x.orValue({int})",
        "{ints}[?0].orValue({int})", "self.ts.getHours()", "optional.of({int}).optMap(q, q + 1).value()",
    ),
    "double": ("({double} + {double})", "({double} * {double})", "({double} / {double})"),
    "string": (
        "({string} + {string})", "{string}.lowerAscii()", "{string}.replace({string}, {string})",
        "{string}.substring({int})", "{strings}.join({string})", "string({int})", "({bool} ? {string} : {string})",
        "{string}.trim()", "'%s-%d'.format([{string}, {int}])", "{string}.find('[a-z]+')", "strings.quote({string})",
    ),
    "ints": (
        "{ints}.map(a, a + {int})", "{ints}.filter(b, b > {int})", "({ints} + {ints})", "{ints}.sort()",
        "{ints}.distinct()", "{ints}.reverse()", "self.ll.flatten()", "{ints}.map(a, a > 1, a * 2)",
        "{ints}.transformList(i, v, i + v)", "{ints}.slice(0, 1)", "{ints}.sortBy(z, -z)",
    ),
    "strings": (
        "{strings}.map(a, a + {string})", "{strings}.filter(b, b != {string})", "({strings} + {strings})",
        "{string}.split({string})", "self.lm.map(e, e.k)", "{string}.findAll('[a-z]')",
    ),
    "bool": (
        "({bool} && {bool})", "({bool} || {bool})", "!({bool})", "{int} < {int}", "{int} != {int}",
        "{string} == {string}", "{string} >= {string}", "{ints}.all(x, x > {int})", "{ints}.exists(x, x == {int})",
        "{double} < {int}",
        "{strings}.exists_one(y, y != {string})", "{string}.startsWith({string})", "{string}.contains({string})",
        "{string} in {strings}", "{int} in {ints}", "{string}.matches('^[a-z]+$')", "{ints} == {ints}",
        "self.lm.all(e, has(e.v) && e.v > {int})", "self.du > duration('1h')", "type(self.ios) == int",
        "self.ios == {int}", "self.ios > {int}", "sets.contains({ints}, {ints})", "dyn({int}) == dyn({string})",
        "{ints}.isSorted()",
    ),
}  # fmt: skip


def expression(dice: random.Random, depth: int, kind: str = "bool") -> str:
    if depth <= 0:
        return dice.choice(LEAVES[kind])
    template = dice.choice(BRANCHES[kind])
    return _fill_template(template, lambda inner: expression(dice, depth - dice.choice((1, 1, 2)), inner))


def _fill_template(template: str, make: Callable[[str], str]) -> str:
    for kind in LEAVES:
        while f"{{{kind}}}" in template:
            template = template.replace(f"{{{kind}}}", make(kind), 1)
    return template
