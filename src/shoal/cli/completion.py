"""`shoal completion`: what a shell needs in order to complete `shoal`."""

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
    # Not `source()`: that of bash runs bash, which need not be here.
    click.echo(made.source_template % made.source_vars())
