"""`shoal envtest`."""

from __future__ import annotations

import shlex
from pathlib import Path

import click


@click.command(name="envtest")
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("shoal-envtest"),
    show_default=True,
    help="Directory to write to.",
)
@click.option(
    "--kubectl", type=click.Path(exists=True, dir_okay=False), help="kubectl to copy there. [the one in PATH]"
)
def command(directory: Path, kubectl: str | None) -> None:
    """Writes programs that envtest can start in place of kube-apiserver and etcd.

    Prints the line that makes a Go test suite use them: eval "$(shoal envtest)" && go test ./...
    """
    from shoal.assemble.envtest.assets import write_assets  # noqa: PLC0415  help needs none of it

    written = write_assets(directory, kubectl)
    click.echo(f"{', '.join(written)} in {directory}", err=True)
    click.echo(f"export KUBEBUILDER_ASSETS={shlex.quote(str(directory.absolute()))}")
