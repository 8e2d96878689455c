"""`kubectl_complete-shoal`: what kubectl runs for completion after `kubectl shoal`.

It gets the words after `shoal`, the last of them unfinished, and prints one word per line with its description after a
tab. The last line is kubectl's completion directive, a number that says what else the shell shall offer.
"""

from __future__ import annotations

from collections.abc import Sequence

from click import Command, echo
from click.shell_completion import ShellComplete

DIRECTIVE_FILES, DIRECTIVE_NO_FILES, DIRECTIVE_DIRECTORIES = 0, 4, 16


def complete(command: Command, words: Sequence[str]) -> list[str]:
    *before, unfinished = words or [""]
    completions = ShellComplete(command, {}, "kubectl shoal", "").get_completions(list(before), unfinished)
    lines = [
        f"{item.value}\t{item.help}" if item.help else str(item.value) for item in completions if item.type == "plain"
    ]
    kinds = {item.type for item in completions}
    directive = DIRECTIVE_FILES if "file" in kinds else DIRECTIVE_DIRECTORIES if "dir" in kinds else DIRECTIVE_NO_FILES
    return [*lines, f":{directive}"]


def main(command: Command, words: Sequence[str]) -> int:
    for line in complete(command, words):
        echo(line)
    return 0
