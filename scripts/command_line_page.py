"""Writes docs/command-line.md: the reference of every command and flag, from the commands themselves.

    .venv/bin/python scripts/command_line_page.py

`tests/cli/test_command_line_page.py` fails where the page is not what this would write.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import click

from shoal.cli.main import COMMANDS, shoal

PAGE = Path(__file__).parent.parent / "docs" / "command-line.md"
WIDTH = 10_000
"""No line of help is to be broken."""
HEAD = """\
# The command line

This page is written by `scripts/command_line_page.py` from the commands themselves.

One program, `shoal`; kubectl finds it as a plugin, `kubectl shoal`. `shoal COMMAND --help` says what follows here.

**Which hub.** Commands that ask a hub find it by `--kubeconfig`, else `$SHOAL_KUBECONFIG`, else the kubeconfig in the
data directory (`--data-dir`, else `$SHOAL_DATA_DIR`, else `~/.local/share/shoal`). `$KUBECONFIG` is never used: it
may well name somebody's production cluster.

**Output.** Standard output is data, standard error is for people. `-o json` and `-o yaml` hold everything, `-o wide`
has more columns. What takes longer than a second says so on a terminal.

**Failure.** One sentence after `error:`, then after `hint:` the command to type. Exit codes:

| code | is |
|---|---|
| 0 | done |
| 1 | it failed |
| 2 | the command line is not right |
| 3 | the hub cannot be reached |
| 4 | the hub does not let you |
| 130 | interrupted |

**Completion.** `source <(shoal completion bash)` in `~/.bashrc`; zsh and fish likewise (`shoal completion --help`).
kubectl completes `kubectl shoal` by itself, through `kubectl_complete-shoal` beside `kubectl-shoal`.

**Without kubectl.** `shoal apply -f` applies files, folders and standard input by server-side apply; `shoal tree`,
`shoal logs` and `shoal status` show what became of them.
"""


def page() -> str:
    context = click.Context(shoal, info_name="shoal", terminal_width=WIDTH)
    lines = [HEAD, "## Commands", "", "| command | does |", "|---|---|"]
    lines += [f"| [`shoal {name}`](#shoal-{name}) | {text} |" for name, text in COMMANDS.items()]
    for name in COMMANDS:
        command = shoal.get_command(context, name)
        assert command is not None
        lines += _section(command, click.Context(command, context, info_name=name, terminal_width=WIDTH))
    return "\n".join(lines) + "\n"


def _section(command: click.Command, context: click.Context) -> Iterator[str]:
    depth = "##" if context.parent is not None and context.parent.parent is None else "###"
    yield from ("", f"{depth} {context.command_path}", "")
    yield from ("```text", " ".join([context.command_path, *command.collect_usage_pieces(context)]), "```")
    text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    yield from ("", *(" ".join(part.split()) + "\n" for part in text.split("\n\n")))
    records = [record for param in command.params if (record := param.get_help_record(context)) is not None]
    if records:
        yield from ("| option | |", "|---|---|")
        yield from (f"| `{_cell(names)}` | {_cell(said)} |" for names, said in records)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _section(inner, click.Context(inner, context, info_name=name, terminal_width=WIDTH))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
