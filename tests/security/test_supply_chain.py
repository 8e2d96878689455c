"""Dependencies are pinned by hash, build files name no host, and nothing is loaded from elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
STATIC = ROOT / "src" / "shoal" / "dashboard" / "static"
SHA256, SHA512 = re.compile(r"^--hash=sha256:[0-9a-f]{64}$"), re.compile(r"^sha512-[A-Za-z0-9+/]{86}==$")
ELSEWHERE = re.compile(r"https?://(?!www\.w3\.org/|127\.0\.0\.1|localhost)[\w.-]+", re.IGNORECASE)
SUMS = sorted(path for path in ROOT.rglob("go.mod") if not {".venv", "node_modules"} & set(path.parts))


def requirements(text: str) -> list[list[str]]:
    joined = text.replace("\\\n", " ")
    return [line.split() for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_python_package_is_pinned_with_hashes_and_without_hosts(lock: Path) -> None:
    found = requirements(lock.read_text())
    assert len(found) > 10
    for name, *rest in found:
        assert re.fullmatch(r"[\w.\[\]-]+==[\w.+!-]+", name), name
        marks = " ".join(each for each in rest if not each.startswith("--hash="))
        hashes = [each for each in rest if each.startswith("--hash=")]
        assert hashes, name
        assert all(map(SHA256.match, hashes)), name
        assert not marks or marks.startswith(";"), f"{name} {marks}"
    assert "://" not in lock.read_text()
    assert "-index" not in lock.read_text()


def test_every_package_of_the_dashboard_is_pinned_with_a_hash_and_without_a_host() -> None:
    packages = json.loads((ROOT / "web" / "package-lock.json").read_text())["packages"]
    found = {name: about for name, about in packages.items() if name}
    assert len(found) > 10
    assert [name for name, about in found.items() if not SHA512.match(about.get("integrity", ""))] == []
    assert [name for name, about in found.items() if "resolved" in about] == []


@pytest.mark.parametrize("module", SUMS, ids=lambda path: str(path.parent.relative_to(ROOT)))
def test_every_go_module_has_its_sums(module: Path) -> None:
    """Tools and peers of the tests: `go` refuses what does not match."""
    file = module.with_name("go.sum")
    sums = file.read_text().splitlines() if file.exists() else []
    assert bool(sums) == ("require" in module.read_text())
    assert all(re.fullmatch(r"\S+ v\S+ h1:[A-Za-z0-9+/]{43}=", line) for line in sums)


def test_the_dashboard_loads_nothing_from_elsewhere() -> None:
    files = [path for path in STATIC.rglob("*") if path.suffix in (".html", ".css", ".js", ".svg")]
    assert files
    for path in files:
        for element in re.findall(
            r"""(?:src|href|url\(|@import|import\()\s*=?\s*["'(]?([^"')\s>]+)""", path.read_text()
        ):
            assert not ELSEWHERE.match(element), f"{path.name}: {element}"


def test_installing_takes_only_what_has_a_hash() -> None:
    text = (ROOT / "scripts" / "bootstrap.py").read_text()
    assert "--require-hashes" in text
    assert "--only-binary" in text
