"""`make image` before it builds: the engine that answers, and what the base says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import image
from scripts.wheels import BuildError, Target


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def program(path: Path, name: str, code: int) -> None:
    (path / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {path}/asked\nexit {code}\n')
    (path / name).chmod(0o755)


def test_the_first_engine_that_answers_is_taken(path: Path) -> None:
    program(path, "docker", 1)
    program(path, "podman", 0)
    program(path, "buildah", 0)
    assert image.find_engine("") == "podman"
    assert image.find_engine("buildah") == "buildah"
    assert (path / "asked").read_text() == "docker version\npodman info\nbuildah info\n"


def test_no_engine(path: Path) -> None:
    program(path, "docker", 1)
    with pytest.raises(BuildError, match=r"^no container engine answers \(docker, podman, buildah\)\nhint: start one"):
        image.find_engine("")
    with pytest.raises(BuildError, match=r"^no container engine answers \(docker\)\n"):
        image.find_engine("docker")
    with pytest.raises(BuildError, match=r"^nerdctl is no engine that is known here\nhint: ENGINE=docker\|podman\|bu"):
        image.find_engine("nerdctl")


def test_what_the_base_says() -> None:
    answer = "3.13 glibc 2.41 aarch64 /usr/local/bin/python3\n"
    assert image.parse_answer("base", answer) == (Target("3.13", (2, 41), "aarch64"), "/usr/local/bin/python3")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("3.13 x86_64 /usr/bin/python3", "base has no glibc, for which the libraries of Shoal have wheels"),
        ("3.10 glibc 2.41 x86_64 /usr/bin/python3", "base has Python 3.10; Shoal needs 3.11 to 3.14"),
        ("3.13 glibc 2.41 riscv64 /usr/bin/python3", "the libraries of Shoal have no wheels for riscv64"),
    ],
)
def test_a_base_that_cannot_be_one(answer: str, message: str) -> None:
    with pytest.raises(BuildError) as refused:
        image.parse_answer("base", answer)
    assert str(refused.value).partition("\n")[0] == message


@pytest.mark.parametrize(
    ("name", "form"), [("docker", ""), ("podman", " --format docker"), ("buildah", " --format docker")]
)
def test_how_each_engine_builds(name: str, form: str, path: Path) -> None:
    """The format of OCI has no health check."""
    program(path, name, 0)
    image.Engine(name, "linux/arm64").build("base", "arm64", "tag")
    asked = (path / "asked").read_text()
    assert asked.startswith(
        f"{name} build --platform linux/arm64{form} --build-arg BASE=base --build-arg TARGETARCH=arm64 "
    )
    assert asked.endswith(f" --file {image.CONTAINERFILE} --tag tag {image.CONTEXT}\n")
    program(path, name, 1)
    with pytest.raises(BuildError, match=f"^{name} did not build the image\n"):
        image.Engine(name).build("base", "arm64", "tag")


def test_buildah_asks_in_a_container_that_it_removes(path: Path) -> None:
    program(path, "buildah", 0)
    image.Engine("buildah").answer("base")
    words = [line.split()[:2] for line in (path / "asked").read_text().splitlines() if line.startswith("buildah")]
    assert words == [["buildah", "from"], ["buildah", "run"], ["buildah", "rm"]]
