"""`shoal join-cluster`: an existing cluster becomes one of the hub's workload Clusters."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import click
import yaml

from shoal import __version__
from shoal.assemble.commands.syncer_manifest import IMAGE_REPOSITORY, NAME, SyncerInstallation, manifest
from shoal.assemble.storage.datadir import render_kubeconfig as kubeconfig_text
from shoal.cli.options.hub import CommandError, HubLocation, call_hub, find_hub_kubeconfig, hub_options
from shoal.client.kubeconfig import KubeconfigError, load_rest_config
from shoal.client.rest import Client
from shoal.kinds.workload import workloadcluster
from shoal.objects.names import is_dns1123_subdomain


@click.command(name="join-cluster")
@click.argument("name")
@click.option(
    "--kubeconfig-of-cluster",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Kubeconfig of the cluster.",
)
@click.option("--context", default="", help="Context of that kubeconfig. [its current context]")
@click.option(
    "--mode",
    type=click.Choice(["push", "pull"]),
    default="push",
    show_default=True,
    help="push: the hub connects to the cluster; pull: a syncer in the cluster connects to the hub.",
)
@click.option(
    "--apply/--print", "apply", default=None, help="With pull: apply the manifest of the syncer, or print it. [print]"
)
@click.option(
    "--namespace",
    default="default",
    show_default=True,
    help="With push: namespace of the kubeconfig Secret on the hub.",
)
@click.option(
    "--image", default=f"{IMAGE_REPOSITORY}:{__version__}", show_default=True, help="With pull: image of the syncer."
)
@click.option("--hub-server", default="", metavar="URL", help="With pull: URL at which the cluster reaches the hub.")
@click.option(
    "--resources-to-sync",
    default=",".join(workloadcluster.DEFAULT_RESOURCES),
    show_default=True,
    metavar="A,B",
    help="With pull: resources that the syncer may write in the cluster.",
)
@hub_options
def command(
    *,
    name: str,
    kubeconfig_of_cluster: Path | None,
    context: str,
    mode: str,
    apply: bool | None,
    namespace: str,
    image: str,
    hub_server: str,
    resources_to_sync: str,
    kubeconfig: Path | None,
    data_dir: Path | None,
) -> None:
    """Registers an existing cluster as workload Cluster NAME of the hub."""
    name_errors = is_dns1123_subdomain(name)
    if name_errors or len(name) > workloadcluster.MAX_NAME_LENGTH:
        raise click.UsageError(
            f"{name}: {name_errors[0] if name_errors else f'at most {workloadcluster.MAX_NAME_LENGTH} characters'}"
        )
    location = kubeconfig, data_dir
    find_hub_kubeconfig(*location)
    if mode == "push":
        if apply is not None:
            raise click.UsageError("--apply and --print require --mode pull")
        if kubeconfig_of_cluster is None:
            raise click.UsageError("--mode push requires --kubeconfig-of-cluster")
        _join_push(location, name, namespace, kubeconfig_of_cluster, context)
        return
    if apply and kubeconfig_of_cluster is None:
        raise click.UsageError("--apply requires --kubeconfig-of-cluster")
    resources = tuple(each.strip() for each in resources_to_sync.split(",") if each.strip())
    installation = _prepare_installation(location, name, image, hub_server, resources)
    if apply:
        from shoal.assemble.commands.join_cluster import apply_manifest  # noqa: PLC0415

        assert kubeconfig_of_cluster is not None
        applied = call_hub(kubeconfig_of_cluster, None, lambda client: apply_manifest(client, installation))
        for each in applied:
            click.echo(f"applied {each}", err=True)
    else:
        click.echo(yaml.safe_dump_all(manifest(installation), sort_keys=False), nl=False)
        click.echo(f"next: kubectl apply -f - in the cluster, then kubectl -n {NAME} get pods", err=True)
    _print_next(name)


def _join_push(location: HubLocation, name: str, namespace: str, cluster: Path, context: str) -> None:
    # The syncer loads more slowly than help may take.
    from shoal.assemble.commands.join_cluster import flatten_kubeconfig, join_push  # noqa: PLC0415

    try:
        text = flatten_kubeconfig(cluster, context)
    except KubeconfigError as error:
        raise CommandError(str(error), error.hint) from None
    call_hub(*location, lambda hub: join_push(hub, name, namespace, text))
    _print_next(name)


def _prepare_installation(
    location: HubLocation, name: str, image: str, hub_server: str, resources: tuple[str, ...]
) -> SyncerInstallation:
    from shoal.assemble.commands.join_cluster import join_pull  # noqa: PLC0415
    from shoal.assemble.workers.join import hub_base_url  # noqa: PLC0415

    try:
        hub = load_rest_config(find_hub_kubeconfig(*location))
    except KubeconfigError as error:
        raise CommandError(str(error), error.hint) from None
    server = hub_server or hub_base_url(hub.server)
    if urlsplit(server).scheme != "https":
        raise click.UsageError(f"--hub-server {server}: give a URL such as https://hub.example.com:6443")
    if urlsplit(server).hostname in ("127.0.0.1", "localhost", "::1"):
        click.echo(
            f"note: {server} is reachable from this machine only; for others, start the hub with "
            "--listen 0.0.0.0:6443 --advertise-address HOST, or give --hub-server",
            err=True,
        )

    async def register(client: Client) -> str:
        return await join_pull(client, name)

    token = call_hub(*location, register)
    text = kubeconfig_text(server, hub.ca_pem.encode(), token, f"shoal-syncer-{name}", hub.server_name)
    return SyncerInstallation(name, text, image, resources)


def _print_next(name: str) -> None:
    click.echo(f"{name} is registered", err=True)
    click.echo(f"next: kubectl get clusters.workload.kcp.dev {name}", err=True)
