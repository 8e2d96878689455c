"""A page that is wrong is told so: what the harness does with small pages that need nothing but a shell."""

from __future__ import annotations

import os
import socket
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.docs.dryrun import wrong_reason
from tests.docs.pages import ROOT, read
from tests.docs.scenario import HANG, PageFailed, Ports, Scenario


def run(text: str, place: Path) -> Scenario:
    page = read(ROOT / "docs" / "x.md", text)
    assert page.faults == ()
    scenario = Scenario(page, place, {})
    scenario.run()
    return scenario


def block(language: str, text: str, *marks: str) -> str:
    return "".join(f"<!-- {mark} -->\n" for mark in marks) + f"```{language}\n{text}\n```\n\n"


def test_blocks_share_a_shell_a_directory_and_a_home(tmp_path: Path) -> None:
    text = block("sh", 'word=kept\ncd "$HOME"\necho one > file') + block(
        "console", "$ cat ~/file; echo $word\none\nkept"
    )
    run(text, tmp_path)
    assert (tmp_path / "home" / "file").read_text() == "one\n"
    assert str(Path.home()) not in str(tmp_path / "home")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (block("sh", "echo before\nfalse\necho after"), "exit code None:\nbefore\n"),
        (block("sh", "false | true"), "exit code None"),
        (block("sh", "echo $unset"), "unset: unbound variable"),
        (block("sh", "printf a") + block("text", "b"), "- b\n+ a"),
        (block("console", "$ printf a\na\n$ printf c\nb"), "printf c\n- b\n+ c"),
        (block("sh", "echo no", "terminal: t") + block("text", "yes"), "this terminal is not ready:\n- yes\n+ no"),
        (block("sh", "cat < nothing"), "nothing: No such file"),
    ],
)
def test_a_page_that_does_not_do_what_it_says_fails(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(PageFailed, match=r"^docs/x\.md:[12]: ") as failed:
        run(text, tmp_path)
    assert why in str(failed.value)


def test_what_is_not_shown_is_not_compared(tmp_path: Path) -> None:
    run(block("sh", "echo a") + "Words.\n\n" + block("text", "b"), tmp_path)


def test_looking_is_repeated_until_it_shows(tmp_path: Path) -> None:
    run(block("sh", "(sleep 0.5; echo there > late) &\ntouch late") + block("console", "$ cat late\nthere"), tmp_path)


def test_a_terminal_runs_beside_the_page_until_it_is_interrupted(tmp_path: Path) -> None:
    waits = "trap 'echo ended > end; exit 0' INT\necho ready\nwhile true; do sleep 0.05; done"
    text = block("sh", waits, "terminal: t") + block("text", "ready")
    run(text + block("sh", "test ! -e end") + block("sh", "grep ended end", "interrupt: t"), tmp_path)


def test_what_a_page_has_started_ends_with_it(tmp_path: Path) -> None:
    holder, held = socket.socketpair()
    holder.settimeout(HANG)
    os.set_inheritable(held.fileno(), True)
    beside = block("sh", "sleep 600 & echo up; wait", "terminal: t") + block("text", "up")
    with pytest.MonkeyPatch.context() as patched:
        # Everything a page starts has this descriptor: it is closed when the last of them is gone.
        patched.setattr("tests.docs.scenario.subprocess.Popen", partial(subprocess.Popen, close_fds=False))
        run(block("sh", "sleep 600 &") + beside, tmp_path)
    held.close()
    assert holder.recv(1) == b""
    holder.close()


def test_a_port_of_a_page_is_another_here_and_told_as_the_pages_own(tmp_path: Path) -> None:
    ports = Ports()
    given = ports.given("curl https://127.0.0.1:6443/ui/ localhost:8080 10.0.0.1:6443")
    here = ports.here("6443")
    assert given == f"curl https://127.0.0.1:{here}/ui/ localhost:{ports.here('8080')} 10.0.0.1:6443"
    assert ports.told(f"at 127.0.0.1:{here}, not 127.0.0.1:1234") == "at 127.0.0.1:6443, not 127.0.0.1:1234"
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", here))
        server.listen()
    ports.close()
    run(
        block("sh", "echo at 127.0.0.1:6443, by $SHOAL_LISTEN") + block("text", "at 127.0.0.1:6443, by 127.0.0.1:6443"),
        tmp_path,
    )


def test_a_block_that_another_test_types_is_not_run_here(tmp_path: Path) -> None:
    run(block("sh", "false", "typed by: real/test_debian_machine.py"), tmp_path)


@pytest.mark.parametrize(
    ("test", "why"),
    [
        ("real/test_debian_machine.py", ""),
        ("real/test_image.py", 'test_image.py does not call typed_block("docs/installing.md", '),
        ("real/test_nothing.py", 'test_nothing.py does not call typed_block("docs/installing.md", '),
    ],
)
def test_a_test_that_does_not_type_a_block_is_named(test: str, why: str) -> None:
    page = read(ROOT / "docs" / "installing.md", block("sh", "true", f"typed by: {test}"))
    assert wrong_reason(page, page.blocks[0]) == why


def test_readers_of_containers_have_the_ports_of_the_page(tmp_path: Path) -> None:
    page = read(ROOT / "docs" / "x.md", block("sh", "echo at 127.0.0.1:6443") + block("text", "at 127.0.0.1:6443"))
    scenario = Scenario(page, tmp_path, {}, own_ports=True)
    scenario.run()
    assert scenario.ports.given("localhost:8080") == "localhost:8080"
    assert scenario.ports.taken == {}
