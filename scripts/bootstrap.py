"""Sets up .venv from the lock files: `python3 scripts/bootstrap.py [runtime|dev]`.

Runs on any Python from 3.6 on, so that it can say what is missing, and goes on in one that Shoal supports.
Installs pinned and hashed wheels only: nothing is built, and no package index is named here. The project itself
is a .pth file and three scripts. A stamp of the lock file makes the next run a file comparison.
"""

import hashlib
import os
import shlex
import subprocess
import sys
from importlib.util import find_spec
from typing import Iterator, List, Optional, Tuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GROUPS = ("runtime", "dev")  # each one contains those before it
OLDEST, NEWEST = (3, 11), (3, 14)
ENTRY = "shoal.cli.main:main"
SCRIPTS = ("shoal", "kubectl-shoal", "kubectl_complete-shoal")


class BootstrapError(Exception):
    """What is wrong, and what to do about it."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__("error: {}\nhint: {}".format(what, hint))


def check_platform(platform: str, machine: str) -> None:
    if platform in ("win32", "cygwin", "msys"):
        raise BootstrapError(
            "Shoal runs on Linux and macOS; on Windows use WSL2", "wsl --install, then make up in its shell"
        )
    if platform == "darwin" and machine != "arm64":
        raise BootstrapError("dependencies of Shoal have no wheels for Intel Macs", "use an Apple silicon Mac or Linux")


def is_supported(version: Tuple[int, ...], implementation: str = "cpython") -> bool:
    return OLDEST <= tuple(version[:2]) <= NEWEST and implementation == "cpython"


def candidates() -> Iterator[str]:
    """Other Pythons of this machine, the newest supported ones first."""
    minors = range(NEWEST[1], OLDEST[1] - 1, -1)
    for minor in minors:
        for folder in os.environ.get("PATH", "").split(os.pathsep):
            yield os.path.join(folder, "python3.{}".format(minor))
    pyenv = os.path.join(os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv"), "versions")
    installed = sorted(os.listdir(pyenv)) if os.path.isdir(pyenv) else []
    for minor in minors:
        for name in installed:
            if name.startswith("3.{}.".format(minor)):
                yield os.path.join(pyenv, name, "bin", "python3")


def is_usable(python: str) -> bool:
    """Asks it: a pyenv shim can exist for a version that is not switched on."""
    if not os.access(python, os.X_OK):
        return False
    program = "import sys; print(sys.implementation.name, *sys.version_info[:2])"
    probe = subprocess.run([python, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    words = probe.stdout.decode().split()
    return probe.returncode == 0 and is_supported(tuple(map(int, words[1:])), words[0])


def find_python() -> str:
    for python in candidates():
        if is_usable(python):
            return python
    raise BootstrapError(
        "Shoal needs CPython {}.{} to {}.{}; this is {} {}.{} and no other was found".format(
            *OLDEST, *NEWEST, sys.implementation.name, *sys.version_info[:2]
        ),
        "install python3.13 (apt, dnf, brew or pyenv) and run make again",
    )


def environment_version(venv: str) -> Optional[str]:
    """The Python version of an environment that can be used, else None."""
    try:
        with open(os.path.join(venv, "pyvenv.cfg")) as config:
            settings = dict(line.split(" = ", 1) for line in config.read().splitlines() if " = " in line)
        version = settings.get("version") or settings["version_info"]
        usable = is_supported(tuple(int(part) for part in version.split(".")[:2]))
    except (OSError, KeyError, ValueError):
        return None
    return version if usable and os.path.exists(os.path.join(venv, "bin", "python")) else None


def site_packages(venv: str, version: str) -> str:
    return os.path.join(venv, "lib", "python" + ".".join(version.split(".")[:2]), "site-packages")


def stamp(group: str, root: str, version: str) -> str:
    digest = hashlib.sha256("{}\n{}\n".format(root, version).encode())
    for path in (os.path.join("requirements", group + ".txt"), os.path.join("scripts", "bootstrap.py")):
        with open(os.path.join(root, path), "rb") as content:
            digest.update(content.read())
    return digest.hexdigest()


def stamp_path(venv: str, group: str) -> str:
    return os.path.join(venv, "shoal-{}.stamp".format(group))


def is_ready(group: str, root: str) -> bool:
    venv = os.path.join(root, ".venv")
    version = environment_version(venv)
    if version is None:
        return False
    try:
        with open(stamp_path(venv, group)) as found:
            return found.read() == stamp(group, root, version)
    except OSError:
        return False


def create_environment(venv: str) -> str:
    """Makes the environment unless a usable one is there; returns its Python version."""
    version = environment_version(venv)
    if version is None:
        if find_spec("venv") is None:
            raise BootstrapError(
                "{} has no venv module".format(sys.executable), "install python3-venv and run make again"
            )
        say("creating .venv with Python {}.{}.{}".format(*sys.version_info[:3]))
        run([sys.executable, "-m", "venv", "--clear", "--without-pip", venv])
        version = environment_version(venv)
    if version is None:
        raise BootstrapError(
            "{} did not create a usable environment".format(sys.executable), "remove .venv and run make again"
        )
    return version


def installer(venv: str, version: str) -> List[str]:
    """The pip command that installs into the environment: its own pip, a fresh one, or this Python's."""
    python = os.path.join(venv, "bin", "python")
    if not os.path.isdir(os.path.join(site_packages(venv, version), "pip")):
        if find_spec("ensurepip") is not None:
            run([python, "-m", "ensurepip"])
        elif find_spec("pip") is not None:
            return [sys.executable, "-m", "pip", "--python", python]
        else:
            raise BootstrapError(
                "{} has neither ensurepip nor pip".format(sys.executable),
                "install python3-venv (Debian, Ubuntu: apt install python3-venv) and run make again",
            )
    return [python, "-m", "pip"]


def install(group: str, root: str) -> None:
    venv = os.path.join(root, ".venv")
    version = create_environment(venv)
    pip = installer(venv, version)
    say("installing the {} packages".format(group))
    lock = os.path.join(root, "requirements", group + ".txt")
    flags = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "--require-hashes"]
    run([*pip, "install", *flags, "--only-binary", ":all:", "-r", lock])
    link_project(root, venv, version)
    for contained in GROUPS[: GROUPS.index(group) + 1]:
        write(stamp_path(venv, contained), stamp(contained, root, version))


def link_project(root: str, venv: str, version: str) -> None:
    """What an editable install does, without a build."""
    write(os.path.join(site_packages(venv, version), "shoal.pth"), os.path.join(root, "src") + "\n")
    module, function = ENTRY.split(":")
    # Through sh, because a #! line cannot hold a long path or one with spaces.
    interpreter = shlex.quote(os.path.join(venv, "bin", "python"))
    lines = [
        "#!/bin/sh",
        "'''exec' {} \"$0\" \"$@\"".format(interpreter),
        "' '''",
        "import sys",
        "",
        "from {} import {}".format(module, function),
        "",
        "sys.exit({}())".format(function),
        "",
    ]
    for name in SCRIPTS:
        path = os.path.join(venv, "bin", name)
        write(path, "\n".join(lines))
        os.chmod(path, 0o755)


def run(command: List[str]) -> None:
    # pip's settings (index, mirror, proxy) come from the user's own configuration; other Pythons' paths must not.
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    finished = subprocess.run(command, stdout=subprocess.DEVNULL, env=environment)
    if finished.returncode != 0:
        raise BootstrapError(
            "this command failed: " + " ".join(map(shlex.quote, command)),
            "see the output above; pip config list prints the configured package index",
        )


def write(path: str, text: str) -> None:
    """Replaces the file: it may be a link into somewhere else."""
    temporary = path + ".new"
    with open(temporary, "w") as target:
        target.write(text)
    os.replace(temporary, path)


def say(text: str) -> None:
    sys.stderr.write("shoal: {}\n".format(text))


def main(arguments: List[str]) -> int:
    group = arguments[0] if arguments else "runtime"
    if len(arguments) > 1 or group not in GROUPS:
        sys.stderr.write("usage: bootstrap.py [{}]\n".format("|".join(GROUPS)))
        return 2
    if is_ready(group, ROOT):
        return 0
    try:
        check_platform(sys.platform, os.uname().machine if hasattr(os, "uname") else "")
        if not is_supported(sys.version_info[:2], sys.implementation.name):
            python = find_python()
            os.execv(python, [python, os.path.abspath(__file__), *arguments])
        install(group, ROOT)
    except BootstrapError as refused:
        sys.stderr.write("{}\n".format(refused))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
