"""The names of the source tree: rules that a program can check. docs/glossary.md has the words themselves."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "shoal"

MOST_MODULES = 40
MOST_NAMESAKES = 5
"""How often one class name may occur in all packages together."""

IRREGULAR = re.compile(
    "begun|bent|born|bought|bound|brought|built|caught|chosen|dealt|done|drawn|driven|eaten|fallen|fed|felt|forgotten|"
    "fought|found|frozen|given|gone|grown|heard|held|hidden|hung|kept|known|laid|led|left|lost|made|meant|met|paid|proven|"
    "risen|said|seen|sent|shown|sold|sought|spent|spoken|stolen|stood|struck|stuck|swept|taken|taught|thought|thrown|told|"
    "torn|understood|woken|won|worn|wound|written"
)
NOUNS = re.compile(
    "binding|building|ceiling|encoding|everything|feed|heading|listing|mapping|offering|padding|ping|rounding|seed|setting|"
    "sibling|speed|spelling|string|substring|thing|timing|warning"
)
"""Words that end as participles do and are none."""
KEPT = {
    "closed": "Python's word for a stream that is",
    "done": "client-go's method of a work queue",
    "satisfied": "kube-controller-manager's word for expectations that are met",
    "remaining": "a duration or an amount that is left",
    "unassigned": "Karmada's word for replicas without a cluster",
}
"""Participles that the field or Python uses itself, each with its reason."""


@pytest.fixture(scope="module")
def sources() -> dict[Path, ast.Module]:
    """Not at import: every test process imports this module, and one of them runs it."""
    return {path.relative_to(PACKAGE): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def is_participle(name: str) -> bool:
    word = name.strip("_")
    if NOUNS.fullmatch(word) or not re.fullmatch("[a-z]{4,}", word):
        return False
    return IRREGULAR.fullmatch(word) is not None or word.endswith(("ed", "ing"))


def functions(tree: ast.AST) -> Iterator[str]:
    return (node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def classes(tree: ast.AST) -> Iterator[str]:
    return (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def bare_participles(sources: dict[Path, ast.Module]) -> list[str]:
    return [
        f"{path}: {name}"
        for path, tree in sources.items()
        for name in functions(tree)
        if is_participle(name) and name not in KEPT
    ]


def namesakes(sources: dict[Path, ast.Module]) -> list[str]:
    """Class names that occur twice in a top-level package, or in too many of them."""
    places: dict[str, list[Path]] = defaultdict(list)
    for path, tree in sources.items():
        for name in classes(tree):
            places[name].append(path)
    return [
        f"{name}: {', '.join(map(str, paths))}"
        for name, paths in places.items()
        if max(Counter(path.parts[0] for path in paths).values()) > 1 or len(paths) > MOST_NAMESAKES
    ]


def full_folders(paths: Iterable[Path]) -> list[str]:
    counts = Counter(path.parent for path in paths)
    return [f"{folder}: {count} modules" for folder, count in counts.items() if count > MOST_MODULES]


def without_docstring(sources: dict[Path, ast.Module]) -> list[str]:
    return [str(path) for path, tree in sources.items() if not ast.get_docstring(tree)]


def test_no_function_is_a_bare_participle(sources: dict[Path, ast.Module]) -> None:
    assert bare_participles(sources) == []


def test_a_class_name_occurs_once_in_a_package(sources: dict[Path, ast.Module]) -> None:
    assert namesakes(sources) == []


def test_no_folder_is_too_full(sources: dict[Path, ast.Module]) -> None:
    assert full_folders(sources) == []


def test_every_module_and_package_has_a_docstring(sources: dict[Path, ast.Module]) -> None:
    assert without_docstring(sources) == []


PLANTED = {
    Path(path): ast.parse(text)
    for path, text in {
        "fleet/one.py": '"""One."""\ndef told() -> None: ...\nclass Ledger: ...',
        "fleet/two.py": '"""Two."""\nasync def _watching() -> None: ...\nclass Ledger: ...',
        "fleet/__init__.py": "",
        "sync/kept.py": '"""Kept."""\nclass Stream:\n    def closed(self): ...\n    def feed(self): ...',
    }.items()
}


def test_planted_names_are_found() -> None:
    assert bare_participles(PLANTED) == ["fleet/one.py: told", "fleet/two.py: _watching"]
    assert namesakes(PLANTED) == ["Ledger: fleet/one.py, fleet/two.py"]
    assert without_docstring(PLANTED) == ["fleet/__init__.py"]
    assert full_folders(Path(f"kinds/module_{number}.py") for number in range(41)) == ["kinds: 41 modules"]


def test_namesakes_of_many_packages_are_found() -> None:
    everywhere = {Path(f"package{number}/model.py"): ast.parse("class Plan: ...") for number in range(6)}
    assert [each.split(":")[0] for each in namesakes(everywhere)] == ["Plan"]


@pytest.mark.parametrize("name", sorted(KEPT))
def test_kept_participles_are_in_use(sources: dict[Path, ast.Module], name: str) -> None:
    assert any(name in functions(tree) for tree in sources.values())
