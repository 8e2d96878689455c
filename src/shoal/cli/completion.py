"""`shoal completion`: prints the shell completion of `shoal`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from shoal.cli.main import COMPLETE_VARIABLE, shoal

INSTALL_HINTS = {
    "bash": "source <(shoal completion bash)  # in ~/.bashrc",
    "zsh": "source <(shoal completion zsh)  # in ~/.zshrc, after compinit",
    "fish": "shoal completion fish > ~/.config/fish/completions/shoal.fish",
}


@click.command(name="completion", epilog="\b\n" + "\n".join(INSTALL_HINTS.values()))
@click.argument("shell", type=click.Choice(list(INSTALL_HINTS)))
def command(shell: str) -> None:
    """Prints the completion of commands and options, for the shell to source."""
    completion_class = get_completion_class(shell)
    assert completion_class is not None
    completion = completion_class(shoal, {}, "shoal", COMPLETE_VARIABLE)
    # Not `source()`: for bash it runs bash, which may not be installed.
    click.echo(completion.source_template % completion.source_vars())
