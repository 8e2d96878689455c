"""The structure and the prose about it, kept true: import contracts, budgets, names, paths, dependencies."""

from __future__ import annotations

import ast
import functools
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "shoal"
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONTRACTS = SETTINGS["tool"]["importlinter"]["contracts"]
LONG_FILES = (ROOT / "tests" / "long_files.txt").read_text().split()

NOT_OURS = {".git", ".hypothesis", ".venv", "node_modules", "__pycache__", "dist", "build"}
BAGS = {"utils", "util", "common", "helpers", "helper", "base", "misc", "shared"}
# In halves, so that this file does not hold what it looks for.
REGISTRIES = [
    "pypi" + ".org",
    "python" + "hosted.org",
    "registry." + "npmjs",
    "proxy." + "golang.org",
    "arti" + "factory",
]


def files(folder: Path = ROOT) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in NOT_OURS and not name.endswith(("_cache", ".egg-info"))]
        yield from (Path(parent) / name for name in names)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


MODULES = sorted(path for path in files() if path.suffix == ".py")


@pytest.fixture(scope="module")
def trees() -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse(path.read_text())) for path in sorted(PACKAGE.rglob("*.py"))]


def lint_imports(config: Path, source: Path) -> subprocess.CompletedProcess[str]:
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", program, "--no-cache", "--config", config],
        capture_output=True,
        text=True,
        cwd=config.parent,
        env={**os.environ, "PYTHONPATH": str(source), "COLUMNS": "200", "NO_COLOR": "1"},
    )


def test_import_contracts_are_kept() -> None:
    run = lint_imports(ROOT / "pyproject.toml", ROOT / "src")
    assert run.returncode == 0, run.stdout + run.stderr


def test_no_import_is_excused() -> None:
    assert [contract["name"] for contract in CONTRACTS if contract.get("ignore_imports")] == []


# One wrong import per contract, in the order of pyproject.toml.
PLANTS = [
    ("runtime/planted_layers.py", "import shoal.controlplane"),
    ("controlplane/planted_store.py", "import shoal.store.interface"),
    ("apiserver/planted_client.py", "import shoal.client"),
    ("cli/planted_server.py", "import shoal.apiserver"),
    ("controlplane/planted/decide.py", "def decide() -> None:\n    import time"),
    ("apiserver/planted_sqlite.py", "import sqlite3"),
    ("apiserver/planted_etcd.py", "import grpc"),
    ("apiserver/planted_nats.py", "import nats"),
    ("client/planted_uvloop.py", "import uvloop"),
    ("apiserver/planted_aiohttp.py", "import aiohttp"),
    ("clock/__init__.py", "import shoal.clock.one.deep"),
]


def test_every_contract_can_fail(tmp_path: Path) -> None:
    source = tmp_path / "src"
    shutil.copytree(PACKAGE, source / "shoal", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (source / "shoal" / "clock.py").unlink()
    for path, text in [
        *PLANTS,
        ("clock/one/deep.py", "import shoal.clock.two"),
        ("clock/two.py", "import shoal.clock.one"),
    ]:
        (source / "shoal" / path).parent.mkdir(parents=True, exist_ok=True)
        (source / "shoal" / path).write_text(text + "\n")
        (source / "shoal" / path).parent.joinpath("__init__.py").touch()
    report = lint_imports(tmp_path / "pyproject.toml", source).stdout
    assert len(PLANTS) == len(CONTRACTS)
    assert [c["name"] for c in CONTRACTS if f"{c['name']} BROKEN" not in report] == [], report


def faults(path: Path) -> Iterator[str]:
    source = path.read_text()
    lines, is_test = source.count("\n"), path.is_relative_to(ROOT / "tests")
    budget = 600 if is_test else 400
    if (not source and path.name == "__init__.py") or (is_test and lines <= budget):
        return
    docstring = ast.get_docstring(ast.parse(source)) or ""
    if not docstring and not is_test:
        yield f"{name(path)} opens without a docstring of its role and border"
    if lines > budget and not any(line.startswith("Long because") for line in docstring.splitlines()):
        yield f"{name(path)} has {lines} lines, its budget is {budget}"


def test_every_module_is_short_and_says_what_it_is() -> None:
    """One test for all of them: one each would be a seventh of all tests."""
    assert [fault for path in MODULES for fault in faults(path)] == []


def test_no_function_has_more_than_seven_positional_parameters(trees: list[tuple[Path, ast.Module]]) -> None:
    """More are keyword-only, or an options class."""
    found = [
        f"{path.relative_to(PACKAGE)}:{node.name}"
        for path, tree in trees
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and sum(argument.arg not in ("self", "cls") for argument in node.args.posonlyargs + node.args.args) > 7
    ]
    assert found == []


def test_long_test_files_exist() -> None:
    """They are run first; a name that leads nowhere would put nothing there."""
    assert [path for path in LONG_FILES if not (ROOT / "tests" / path).exists()] == []
    assert len(set(LONG_FILES)) == len(LONG_FILES)


def test_no_bags() -> None:
    assert [name(path) for path in MODULES if BAGS & {path.stem, path.parent.name}] == []


def pictures() -> str:
    return "\n".join(re.findall(r"^```\w*\n(.*?)^```", ARCHITECTURE, re.DOTALL | re.MULTILINE))


def test_every_package_and_layer_is_in_the_picture() -> None:
    drawn = set(re.findall(r"\w+", pictures()))
    packages = {path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"} - {
        "__init__",
        "__pycache__",
    }
    layers = {layer for line in CONTRACTS[0]["layers"] for layer in re.findall(r"\w+", line)}
    assert (packages | layers) - drawn == set()


def test_every_path_in_the_architecture_exists() -> None:
    quoted = re.findall(r"`([\w.*-]+/[\w./*-]*|[\w-]+\.py)`", ARCHITECTURE)
    assert len(quoted) > 10
    assert [path for path in quoted if not any((*ROOT.glob(path), *PACKAGE.glob(path)))] == []


@pytest.mark.parametrize("path", sorted(p for p in files() if p.suffix == ".md"), ids=name)
def test_links_of_the_documentation_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", path.read_text())
    broken = [target for target in targets if "://" not in target[0] and not leads_somewhere(path, *target)]
    assert broken == []


def leads_somewhere(page: Path, target: str, anchor: str) -> bool:
    """To a file, and to a heading of it if the link has an anchor."""
    file = page.parent / target if target else page
    return file.exists() and (not anchor or anchor in anchors(file))


@functools.cache
def anchors(page: Path) -> set[str]:
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_names_the_two_commands() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "make up" in readme
    assert "make test" in readme
    assert "simulated" in readme.split("\n\n")[1]


def test_every_runtime_dependency_is_explained() -> None:
    explained = re.findall(r"^\| `([\w-]+)` \|", (ROOT / "docs" / "dependencies.md").read_text(), re.MULTILINE)
    wanted = {re.split("[<>=]", dependency)[0] for dependency in SETTINGS["project"]["dependencies"]}
    assert wanted - set(explained) == set()


def test_every_runtime_dependency_is_used_and_every_import_declared(trees: list[tuple[Path, ast.Module]]) -> None:
    imported = set()
    for _, tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.split(".")[0])
    modules = {"PyYAML": "yaml", "jsonschema-rs": "jsonschema_rs", "grpcio": "grpc", "nats-py": "nats"}
    declared = {re.split("[<>=]", dependency)[0] for dependency in SETTINGS["project"]["dependencies"]}
    declared.discard("tzdata")  # zoneinfo reads it, nobody imports it
    imported.discard("pytest")  # whoever loads the plugin has it
    assert imported - sys.stdlib_module_names - {"shoal"} == {modules.get(name, name) for name in declared}


def test_no_package_registry_is_named() -> None:
    found = []
    for path in files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found += [f"{name(path)}: {host}" for host in REGISTRIES if host in text]
    assert found == []


def test_the_command_line_starts_without_the_server() -> None:
    program = "import sys, shoal.cli.main; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert {"asyncio", "aiohttp", "cryptography", "ssl", "uvloop", "yaml", "shoal.apiserver"} & set(loaded) == set()
