"""scripts/bootstrap.py: what it refuses, which Python it takes, when it does nothing, what it writes."""

from __future__ import annotations

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
PIN = re.compile(r"^([a-z0-9-]+)==(\S+)( ; .+)? \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bootstrap", ROOT / "scripts" / "bootstrap.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


bootstrap = load()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout with an environment of Python 3.11, and nothing installed into it."""
    (tmp_path / "requirements").mkdir()
    (tmp_path / "scripts").mkdir()
    for group in bootstrap.GROUPS:
        (tmp_path / "requirements" / f"{group}.txt").write_text(f"{group}==1\n")
    shutil.copy(ROOT / "scripts" / "bootstrap.py", tmp_path / "scripts")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.7\n")
    return tmp_path


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    ran: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "run", ran.append)
    return ran


@pytest.mark.parametrize("platform", ["win32", "cygwin", "msys"])
def test_windows_is_refused_by_name(platform: str) -> None:
    with pytest.raises(
        bootstrap.BootstrapError, match="error: Shoal runs on Linux and macOS; on Windows use WSL2\nhint: wsl"
    ):
        bootstrap.check_platform(platform, "AMD64")


def test_intel_macs_are_refused_by_name() -> None:
    with pytest.raises(bootstrap.BootstrapError, match="no wheels for Intel Macs"):
        bootstrap.check_platform("darwin", "x86_64")


@pytest.mark.parametrize(("platform", "machine"), [("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64")])
def test_supported_platforms(platform: str, machine: str) -> None:
    bootstrap.check_platform(platform, machine)


@pytest.mark.parametrize(
    ("version", "implementation", "expected"),
    [
        ((3, 10), "cpython", False),
        ((3, 11), "cpython", True),
        ((3, 14), "cpython", True),
        ((3, 15), "cpython", False),
        ((3, 11), "pypy", False),
    ],
)
def test_supported_pythons(version: tuple[int, int], implementation: str, expected: bool) -> None:
    assert bootstrap.is_supported(version, implementation) is expected


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_takes_a_python_of_the_path_then_of_pyenv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    executable(tmp_path / "bin" / "python3.13", "#!/bin/sh\nexit 127\n")  # a shim that is not switched on
    in_pyenv = executable(
        tmp_path / "pyenv" / "versions" / "3.12.1" / "bin" / "python3", "#!/bin/sh\necho cpython 3 12"
    )
    assert bootstrap.find_python() == str(in_pyenv)
    on_path = executable(tmp_path / "bin" / "python3.11", "#!/bin/sh\necho cpython 3 11\n")
    assert bootstrap.find_python() == str(on_path)


def test_says_which_python_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    with pytest.raises(
        bootstrap.BootstrapError, match=r"Shoal needs CPython 3.11 to 3.14; this is .*\nhint: install python3"
    ):
        bootstrap.find_python()


def test_second_run_does_nothing_and_a_changed_lock_runs_again(tree: Path, commands: list[list[str]]) -> None:
    (tree / ".venv" / "lib" / "python3.11" / "site-packages" / "pip").mkdir()
    root = str(tree)
    assert not bootstrap.is_ready("dev", root)
    bootstrap.install("dev", root)
    (pip,) = commands
    assert pip[:4] == [f"{root}/.venv/bin/python", "-m", "pip", "install"]
    assert {"--require-hashes", "--no-deps", "--only-binary"} < set(pip)
    assert pip[-1] == f"{root}/requirements/dev.txt"
    assert bootstrap.is_ready("dev", root)
    assert bootstrap.is_ready("runtime", root)  # dev contains runtime
    (tree / "requirements" / "dev.txt").write_text("dev==2\n")
    assert not bootstrap.is_ready("dev", root)
    assert bootstrap.is_ready("runtime", root)


def test_runtime_alone_is_not_dev(tree: Path, commands: list[list[str]]) -> None:
    (tree / ".venv" / "lib" / "python3.11" / "site-packages" / "pip").mkdir()
    bootstrap.install("runtime", str(tree))
    assert bootstrap.is_ready("runtime", str(tree))
    assert not bootstrap.is_ready("dev", str(tree))


def test_a_moved_checkout_is_not_ready(tree: Path, commands: list[list[str]]) -> None:
    (tree / ".venv" / "lib" / "python3.11" / "site-packages" / "pip").mkdir()
    bootstrap.install("runtime", str(tree))
    moved = tree.parent / "moved"
    tree.rename(moved)
    assert not bootstrap.is_ready("runtime", str(moved))


@pytest.mark.parametrize("broken", ["version = 3.9.1", "version = 3.11", "nonsense", ""])
def test_an_unusable_environment_is_made_anew(tree: Path, broken: str) -> None:
    (tree / ".venv" / "pyvenv.cfg").write_text(broken)
    if broken == "version = 3.11":  # the Python it was made from is gone
        (tree / ".venv" / "bin" / "python").unlink()
        (tree / ".venv" / "bin" / "python").symlink_to(tree / "gone")
    assert bootstrap.environment_version(str(tree / ".venv")) is None


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        (set(), ["{venv}/bin/python", "-m", "pip"]),
        ({"ensurepip"}, [sys.executable, "-m", "pip", "--python", "{venv}/bin/python"]),
    ],
)
def test_where_pip_comes_from(
    tree: Path, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch, missing: set[str], expected: list[str]
) -> None:
    venv = str(tree / ".venv")
    monkeypatch.setattr(bootstrap, "find_spec", lambda name: None if name in missing else name)
    assert bootstrap.installer(venv, "3.11.7") == [word.format(venv=venv) for word in expected]
    assert commands == ([] if missing else [[f"{venv}/bin/python", "-m", "ensurepip"]])


def test_without_any_pip_it_says_what_to_install(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "find_spec", lambda name: None)
    with pytest.raises(bootstrap.BootstrapError, match="has neither ensurepip nor pip\nhint: install python3-venv"):
        bootstrap.installer(str(tree / ".venv"), "3.11.7")


def test_the_scripts_run_the_project_from_a_path_with_spaces(tmp_path: Path) -> None:
    root = tmp_path / "a 'b'"
    venv = root / ".venv"
    site = venv / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (venv / "bin").mkdir()
    (venv / "bin" / "python").write_text(
        f'#!/bin/sh\nPYTHONPATH="$(cat "{site}/shoal.pth")" exec {sys.executable} "$@"\n'
    )
    (venv / "bin" / "python").chmod(0o755)
    package = root / "src" / "shoal" / "cli"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "main.py").write_text("import sys\ndef main():\n    print(sys.argv[1:])\n    return 3\n")
    bootstrap.link_project(str(root), str(venv), "3.11.7")
    for name in bootstrap.SCRIPTS:
        ran = subprocess.run([venv / "bin" / name, "up", "x y"], capture_output=True, text=True)
        assert (ran.returncode, ran.stdout, ran.stderr) == (3, "['up', 'x y']\n", "")


def test_the_scripts_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == dict.fromkeys(bootstrap.SCRIPTS, bootstrap.ENTRY)


def test_unknown_groups_are_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert bootstrap.main(["docs"]) == 2
    assert capsys.readouterr().err == "usage: bootstrap.py [runtime|dev]\n"


def test_a_failing_command_says_so() -> None:
    with pytest.raises(bootstrap.BootstrapError, match="error: this command failed: false\nhint: see the output above"):
        bootstrap.run(["false"])


def pins(group: str) -> dict[str, str]:
    """The packages of a lock file; every line must be a pin or a hash."""
    found = {}
    for line in (ROOT / "requirements" / f"{group}.txt").read_text().splitlines():
        pin = PIN.match(line)
        assert pin or HASH.match(line), line
        if pin:
            found[pin[1]] = pin[2]
    return found


def test_the_lock_files_hold_every_dependency_and_nothing_but_pins_and_hashes() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    runtime, dev = pins("runtime"), pins("dev")
    assert runtime.items() <= dev.items()
    for locked, wanted in ((runtime, settings["project"]["dependencies"]), (dev, settings["dependency-groups"]["dev"])):
        assert {re.split("[<>=]", name)[0].lower() for name in wanted} <= locked.keys()


def test_it_parses_on_old_pythons() -> None:
    source = (ROOT / "scripts" / "bootstrap.py").read_text()
    ast.parse(source, feature_version=(3, 7))  # the oldest that ast knows
    assert "from __future__" not in source  # postponed annotations came with 3.7
