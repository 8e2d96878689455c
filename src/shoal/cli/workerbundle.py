"""`shoal worker-bundle`: prints the objects that a hub installs in the cluster of a Worker, for manual installation."""

from __future__ import annotations

from pathlib import Path

import click

from shoal.assemble.commands.bundle import JOIN_KUBECONFIG_FILE, bundle_files, bundle_yaml, secret_name
from shoal.kinds.fleet.infrav1 import NAMESPACE
from shoal.kinds.fleet.worker_join import name_error


@click.command(name="worker-bundle")
@click.option("--name", required=True, help="Name of the Worker at the hub.")
@click.option("--image", default="", help="Image to run. [image of this version]")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write files for kubectl apply -k to this directory.",
)
def command(name: str, image: str, directory: Path | None) -> None:
    """Prints the manifests that run a worker in a cluster, for kubectl apply -f -.

    For a Worker with infrastructure kind the hub applies them; this command is for clusters that it cannot reach.
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
