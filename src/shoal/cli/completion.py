"""`shoal completion`: prints the shell completion of `shoal`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from shoal.cli.main import COMPLETE, shoal

HOW = {
    "bash": "source <(shoal completion bash)  # in ~/.bashrc",
    "zsh": "source <(shoal completion zsh)  # in ~/.zshrc, after compinit",
    "fish": "shoal completion fish > ~/.config/fish/completions/shoal.fish",
}


@click.command(name="completion", epilog="\b\n" + "\n".join(HOW.values()))
@click.argument("shell", type=click.Choice(list(HOW)))
def command(shell: str) -> None:
    """Prints the completion of commands and options, for the shell to source."""
    kind = get_completion_class(shell)
    assert kind is not None
    made = kind(shoal, {}, "shoal", COMPLETE)
    # Not `source()`: for bash it runs bash, which may not be installed.
    click.echo(made.source_template % made.source_vars())
