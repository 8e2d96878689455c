"""`shoal worker-bundle`: prints the objects that a hub installs in the cluster of a Worker, for manual installation."""

from __future__ import annotations

from pathlib import Path

import click

from shoal.assemble.commands.bundle import JOIN_KUBECONFIG_FILE, bundle_files, bundle_yaml, secret_name
from shoal.kinds.fleet.infrav1 import NAMESPACE
from shoal.kinds.fleet.worker_join import name_error


@click.command(name="worker-bundle")
@click.option("--name", required=True, help="Of the Worker at the hub.")
@click.option("--image", default="", help="What runs there. [that of this version]")
@click.option(
    "--directory", type=click.Path(path_type=Path, file_okay=False), help="Writes files for kubectl apply -k."
)
def command(name: str, image: str, directory: Path | None) -> None:
    """Prints the objects by which a worker runs in a cluster, for kubectl apply -f -.

    A hub applies them by itself for a Worker with infrastructure kind; this is for clusters that it cannot reach.
    """
    invalid_name = name_error(name)
    if invalid_name:
        raise click.UsageError(f"--name {name}: {invalid_name}")
    if directory is None:
        click.echo("---\n".join(bundle_yaml(name, image)), nl=False)
        where = (
            f"-n {NAMESPACE} create secret generic {secret_name(name)} --from-file=kubeconfig={JOIN_KUBECONFIG_FILE}"
        )
        click.echo(f"next: shoal join-token create --name {name} -o kubeconfig > {JOIN_KUBECONFIG_FILE}", err=True)
        click.echo(f"      kubectl {where}", err=True)
        return
    directory.mkdir(parents=True, exist_ok=True)
    for file, text in bundle_files(name, image).items():
        (directory / file).write_text(text)
    click.echo(
        f"next: shoal join-token create --name {name} -o kubeconfig > {directory / JOIN_KUBECONFIG_FILE}", err=True
    )
    click.echo(f"      kubectl apply -k {directory}", err=True)
