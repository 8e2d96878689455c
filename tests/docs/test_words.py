"""The parts of the harness that read: a page into blocks, a script into commands, an output beside what is shown."""

from __future__ import annotations

import re

import pytest

from tests.docs.dryrun import not_bash, wrong_usage
from tests.docs.output import differs
from tests.docs.pages import ROOT, read
from tests.docs.scenario import only_looks
from tests.docs.words import Command, commands, values

PAGE = """\
<!-- begins with: shoal up -->
# A page

<!-- terminal: far -->
```sh
shoal worker --name far
```

```text
ready
```

Words.

```console
$ shoal status
workers: none
$ shoal explain deployment web \\
> -o json
```

<!-- not run: needs docker -->
```bash
kind create cluster
```

```text
It is what kind says.
```

```yaml
kind: Part
```
"""


def words(script: str) -> list[list[str]]:
    return [command.words for command in commands(script)]


def test_a_page_is_blocks_with_marks_and_what_is_shown() -> None:
    page = read(ROOT / "docs" / "x.md", PAGE)
    assert page.faults == ()
    assert page.beginning == "shoal up"
    terminal, console, unrun, part = page.blocks
    assert (terminal.marks, terminal.shown, terminal.line) == ({"terminal": "far"}, "ready", 5)
    assert console.typed() == [
        ("shoal status", "workers: none"),
        ("shoal explain deployment web \\\n-o json", None),
    ]
    assert (unrun.is_run, unrun.marks, part.is_shell) == (False, {"not run": "needs docker"}, False)
    assert page.steps() == [terminal, console]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("```\nls\n```\n", "line 1: the block has no language"),
        ("```shell\nls\n```\n", "line 1: shell is no language"),
        ("~~~ sh now\nls\n~~~\n", "line 1: sh now is no language"),
        ("```sh\nls\n", "line 1: a block that is not closed is no language"),
        ("<!-- nor run: needs docker -->\n```sh\nls\n```\n", "line 2: <!-- nor run: needs docker --> is no mark"),
        ("<!-- terminal: x -->\n```sh\nls\n```\nwords\n```text\nx\n```\n", "line 2: a terminal of its own needs"),
        ("<!-- not run: needs docker -->\n```yaml\na: b\n```\n", "line 2: a mark on a block that nobody runs"),
        ("```console\nls\n```\n", "line 1: a console block begins with"),
    ],
)
def test_a_page_that_could_hide_a_block_is_at_fault(text: str, fault: str) -> None:
    found = read(ROOT / "docs" / "x.md", text).faults
    assert [each.startswith(fault) for each in found] == [True], found


def test_blocks_of_one_way_in_are_for_those_who_took_it() -> None:
    text = "<!-- only: clone -->\n```sh\nmake up\n```\n\n<!-- only: wheel -->\n```sh\nshoal up\n```\n\n```sh\nls\n```\n"
    page = read(ROOT / "docs" / "x.md", text)
    assert page.variants == ("clone", "wheel")
    assert [block.text for block in page.steps("wheel")] == ["shoal up", "ls"]


def test_commands_of_a_script() -> None:
    script = """\
A=1 shoal kubeconfig east > east.kubeconfig   # don't
for c in east west; do kubectl --kubeconfig "$c.kubeconfig" get nodes | sort; done
shoal plan \\
  -f change.yaml && (umask 077; head -c 32 /dev/urandom 2>/dev/null)
echo "at $(shoal status -o json)" $((1 + 1)) <(kubectl get pods) 'a "b" c' # x
"""
    assert words(script) == [
        ["shoal", "kubeconfig", "east"],
        ["kubectl", "--kubeconfig", "$c.kubeconfig", "get", "nodes"],
        ["sort"],
        ["shoal", "plan", "-f", "change.yaml"],
        ["umask", "077"],
        ["head", "-c", "32", "/dev/urandom"],
        ["shoal", "status", "-o", "json"],
        ["kubectl", "get", "pods"],
        ["echo", "at $(shoal status -o json)", "$((1 + 1))", "<(kubectl get pods)", 'a "b" c'],
    ]
    assert commands(script)[0].writes == "east.kubeconfig"


def test_here_documents_are_given_to_their_command() -> None:
    script = "kubectl apply -f - <<'EOF'\nkind: A\n---\nit's: b\nEOF\ncat > b.yaml <<EOF\nx\nEOF\nls\n"
    assert commands(script) == [
        Command(["kubectl", "apply", "-f", "-"], "kind: A\n---\nit's: b\n"),
        Command(["cat"], "x\n", "b.yaml"),
        Command(["ls"]),
    ]
    assert list(values(commands("kubectl apply -f a -f b --filename=c")[0], "-f", "--filename")) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        ("a  b\nc", "a b \nc\n"),
        ("a ... c", "a b c"),
        ("a\n...\nc", "a\n1\n2\nc"),
        ("a\n...\nc", "a\nc"),
        ("east Running 2m14s", "east  Running   3s"),
        ("node/east-default-whdvg-f6tbq True", "node/east-default-x5kcd-9zxcv True"),
        ("default-23a98a0c worker-1", "default-246ab389 worker-2"),
    ],
)
def test_what_is_shown_is_said(shown: str, said: str) -> None:
    assert differs(shown, said) == ""


@pytest.mark.parametrize(
    ("shown", "said"),
    [("a", "b"), ("a", "a\nb"), ("a ... c", "a b"), ("5/5", "4/5"), ("east 2m", "east two"), ("5 x", "6 x")],
)
def test_what_is_not_said_is_told(shown: str, said: str) -> None:
    assert re.search("^[-+] ", differs(shown, said), re.MULTILINE)


def test_a_terminal_may_say_more_than_is_shown() -> None:
    assert differs("ready", "ready\nand more\n", so_far=True) == ""
    assert differs("ready", "not\n", so_far=True)


@pytest.mark.parametrize(
    ("script", "again"),
    [
        ("kubectl --kubeconfig x get nodes | wc -l", True),
        ("shoal status", True),
        ("kubectl get mc -w", False),
        ("kubectl apply -f x", False),
        ("shoal status && kubectl delete mc east", False),
        ("shoal status > file", False),
        ("rm -rf x", False),
    ],
)
def test_only_looking_is_repeated(script: str, again: bool) -> None:
    assert only_looks(script) is again


@pytest.mark.parametrize(
    ("script", "wrong"),
    [
        ("shoal up --workers 3 --listen 0.0.0.0:6443", ""),
        ("kubectl shoal status -o wide", ""),
        ("shoal join-token create --name far --reusable", ""),
        ("shoal up --worker 3", "No such option"),
        ("shoal status -o xml", "'xml' is not one of"),
        ("shoal staus", "there is no command staus"),
        ("shoal up now", "up takes no ['now']"),
        ("shoal backup", "backup needs"),
    ],
)
def test_usage_of_shoal_is_checked_without_running_it(script: str, wrong: str) -> None:
    found = wrong_usage(commands(script)[0])
    assert wrong in found
    assert bool(found) == bool(wrong)


def test_bash_reads_a_script_without_running_it() -> None:
    assert not_bash("exit 1") == ""
    assert "syntax error" in not_bash("for a in b; done")
