"""The dashboard's bundle: `python scripts/web.py check|build`.

`build` writes `src/shoal/dashboard/static/` anew from `web/`. `check` type-checks, tests and builds beside it, and
compares: what is committed is what the source makes. Without node, or where its packages cannot be downloaded, it says
`NOT RUN: …` and that is all. No install script of any package runs.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parent.parent
WEB = ROOT / "web"
STATIC = ROOT / "src" / "shoal" / "dashboard" / "static"
MODULES = WEB / "node_modules"
STAMP = MODULES / ".shoal-lock"
OLDEST_NODE = (20, 19)


class CheckSkipped(Exception):
    """What this machine lacks."""


def ensure_packages() -> str:
    """The node to use, once the packages of the lock file are there."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise CheckSkipped("node or npm not found")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if tuple(int(part) for part in version.lstrip("v").split(".")[:2]) < OLDEST_NODE:
        raise CheckSkipped(f"node {version} is older than {'.'.join(map(str, OLDEST_NODE))}")
    lock = sha256((WEB / "package-lock.json").read_bytes()).hexdigest()
    if not STAMP.exists() or STAMP.read_text() != lock:
        fetched = subprocess.run(
            [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=WEB, capture_output=True, text=True
        )
        if fetched.returncode:
            print(fetched.stderr[:1000], file=sys.stderr)
            raise CheckSkipped("its packages cannot be downloaded")
        STAMP.write_text(lock)
    return node


def run(node: str, program: str, *arguments: str) -> None:
    subprocess.run([node, str(MODULES / program), *arguments], cwd=WEB, check=True)


def build(node: str, folder: Path) -> None:
    run(node, "vite/bin/vite.js", "build", "--logLevel", "warn", "--outDir", str(folder), "--emptyOutDir")


def differences(made: Path, committed: Path) -> list[str]:
    """Names of files that are not in both folders with the same bytes."""
    names = {path.relative_to(folder) for folder in (made, committed) for path in folder.rglob("*") if path.is_file()}

    def same(name: Path) -> bool:
        one, other = made / name, committed / name
        return one.is_file() and other.is_file() and filecmp.cmp(one, other, shallow=False)

    return sorted(str(name) for name in names if not same(name))


def check(node: str) -> int:
    run(node, "typescript/bin/tsc", "--noEmit")
    run(node, "vitest/vitest.mjs", "run", "--reporter=dot")
    with tempfile.TemporaryDirectory(prefix="shoal-web-") as folder:
        build(node, Path(folder))
        different = differences(Path(folder), STATIC)
    if different:
        print(f"error: the bundle does not match web/: {', '.join(different)}\nhint: make web-build", file=sys.stderr)
        return 1
    print("the dashboard's bundle matches web/")
    return 0


def main(command: str) -> int:
    try:
        node = ensure_packages()
        if command == "build":
            build(node, STATIC)
            return 0
        return check(node)
    except CheckSkipped as missing:
        print(f"NOT RUN: the dashboard's bundle ({missing})")
        return 1 if "node" in os.environ.get("SHOAL_REQUIRE", "").split(",") or command == "build" else 0
    except subprocess.CalledProcessError as error:
        return error.returncode


if __name__ == "__main__":
    if sys.argv[1:] not in (["check"], ["build"]):
        sys.exit(f"usage: {sys.argv[0]} check|build")
    sys.exit(main(sys.argv[1]))
