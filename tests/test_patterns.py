"""Every regular expression of the source runs in linear time: tenants send what they match.

`re` is used in one form, `re.compile(…).method` at the top of a module, so that each pattern and the way it is used can
be read here. The proof is in `linear_patterns`. Patterns that tenants write run on another engine: see
`docs/decisions/0040-linear-patterns.md`.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from shoal.apiserver.response import yaml_encoder
from shoal.objects import strictyaml
from tests.linear_patterns import unproven_reason

SOURCE = Path(__file__).parent.parent / "src"
NOT_TENANTS_TEXT = {
    "shoal/assemble/commands/doctor.py": "versions that commands on this machine print",
}
BASE_60 = "(?::[0-5]?[0-9])+"
ENGINES = ("re", "regex", "re2", "fnmatch", "sre_compile")


def find_uses(tree: ast.Module, module: ModuleType) -> Iterator[str]:
    """Yields what is wrong with each use of `re` in a module."""
    compiled: dict[ast.AST, tuple[ast.Call, str]] = {
        node.value.func: (node.value, node.attr)
        for statement in tree.body
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for node in ast.walk(statement)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".add_implicit_resolver"):
            # The YAML library calls `match`.
            compiled |= {each.func: (each, "match") for each in node.args if isinstance(each, ast.Call)}
        if isinstance(node, ast.ImportFrom) and node.module in ENGINES:
            yield f"line {node.lineno}: from {node.module} import"
        if isinstance(node, ast.Import):
            for each in node.names:
                if each.name in ENGINES and (each.name != "re" or each.asname):
                    yield f"line {node.lineno}: import {each.name}"
        if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "re"):
            continue
        if node.attr.isupper() or node.attr in ("Match", "Pattern", "escape", "error"):
            continue
        if node not in compiled or node.attr != "compile":
            yield f"line {node.lineno}: re.{node.attr} is not re.compile(…).method at the top of the module"
            continue
        call, method = compiled[node]
        arguments = [eval(compile(ast.Expression(each), "", "eval"), vars(module)) for each in call.args]
        pattern, flags = (*arguments, 0)[:2]
        if reason := unproven_reason(pattern, flags, method):
            yield f"line {node.lineno}: {method} of {pattern!r}: {reason}"


def test_every_pattern_of_the_source_is_linear() -> None:
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name, text = path.relative_to(SOURCE).as_posix(), path.read_text()
        if not any(engine in text for engine in ENGINES) or name in NOT_TENANTS_TEXT:
            continue
        tree = ast.parse(text)
        if any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(tree)):
            module = importlib.import_module(name.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
            if uses := list(find_uses(tree, module)):
                found[name] = uses
    assert found == {}


def test_files_that_are_left_out_exist_and_use_patterns() -> None:
    for name in NOT_TENANTS_TEXT:
        assert "import re\n" in (SOURCE / name).read_text()


@pytest.mark.parametrize("resolver", [strictyaml._YAMLResolver, yaml_encoder._Dumper])
def test_what_yaml_tells_scalars_apart_by_is_linear(resolver: Any) -> None:
    patterns = {pattern for each in resolver.yaml_implicit_resolvers.values() for _, pattern in each}
    unproven = {each.pattern for each in patterns if unproven_reason(each.pattern, each.flags, "match")}
    # Of PyYAML's own, integers and floats with base 60: each repetition begins with a colon, which ends the one before.
    assert all(
        BASE_60 in pattern and not unproven_reason(_without_base_60(pattern), re.X, "match") for pattern in unproven
    )


def _without_base_60(pattern: str) -> str:
    return pattern.replace(BASE_60, "(?::[0-9]{1,2})+")


PLANTED = [
    ("(a+)+b", "fullmatch"),
    ("(?:a|a)*b", "fullmatch"),
    ("(?:ab|a|b)*c", "fullmatch"),
    ("a*a*b", "match"),
    (r"\s*(x)?\s*y", "match"),
    (r"\s*[^<]*\s*<", "match"),
    ("(?:a?)*b", "match"),
    ("(?:a*)*b", "match"),
    ("(?:a?a?)*b", "match"),
    ("[a-z]+.*[0-9]", "match"),
    ("[a-z]([-a-z]*[a-z])?", "fullmatch"),
    (r"(a)\1", "match"),
    (".*?b.*?c", "match"),
    ("(?:(?:a*;)*+a,?)*", "match"),
    ("(?=a*b)a", "match"),
    ("(?:a{1,5}){1,9}(?:a{1,5}){1,9}b", "match"),
    (r"%([0-9]+)x", "search"),
    ("a+b", "search"),
    ("a*b", "findall"),
    ("x(?:a+b)?", "finditer"),
    (r"\s+$", "sub"),
    ("(?:a+b)*", "search"),
    ("a++(?:c+d)?", "search"),
    (r'"[^"]*"', "findall"),
    (rb"-----BEGIN [A-Z]+-----", "search"),
    ("a", "scanner"),
]
LINEAR = [
    ("[a-z]+", "fullmatch"),
    ("[a-z]+(?:-+[a-z]+)*", "fullmatch"),
    ("[a-z]*+[0-9a-z]", "match"),
    (r"\s*+(x)?\s*+y", "match"),
    ("(?>[a-z]+)[a-z0-9]", "match"),
    ('"(?:[^"\\\\]|\\\\.)*"', "match"),
    (r"a?[0-9]{1,9}|b.{0,3}c?", "search"),
    (r"[^,\s]+", "findall"),
    (r'"(?:[^"\\]|\\.)*+"?', "findall"),
    (r"(?:yes|no|nothing)", "fullmatch"),
    (rb"-----BEGIN ([^\n-]+)-----\r?\n", "match"),
]


@pytest.mark.parametrize(("pattern", "method"), PLANTED)
def test_patterns_that_may_take_longer_are_found(pattern: str | bytes, method: str) -> None:
    assert unproven_reason(pattern, 0, method)


@pytest.mark.parametrize(("pattern", "method"), LINEAR)
def test_patterns_that_cannot_are_accepted(pattern: str | bytes, method: str) -> None:
    assert unproven_reason(pattern, 0, method) == ""


@pytest.mark.parametrize(
    "line",
    [
        "from re import compile",
        "import re as patterns",
        "import regex",
        "found = re.search('a', '')",
        "PATTERN = re.compile('a')",
        "match = re.compile('(a+)+b').fullmatch",
        "def f(text): return re.sub('a', '', text)",
        "def f(text): return re.compile('a').match(text)",
    ],
)
def test_other_uses_of_the_engine_are_found(line: str) -> None:
    module = ModuleType("planted")
    vars(module)["re"] = re
    assert len(list(find_uses(ast.parse(line), module))) == 1
    assert list(find_uses(ast.parse("match = re.compile('[a-z]+', re.ASCII).fullmatch"), module)) == []
