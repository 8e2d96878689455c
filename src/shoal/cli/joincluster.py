"""`shoal join-cluster`: an existing cluster becomes one of the hub's workload Clusters."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import click
import yaml

from shoal import __version__
from shoal.assemble.datadir import kubeconfig as kubeconfig_text
from shoal.assemble.syncer_manifest import IMAGE, NAME, Installation, manifest
from shoal.cli.asking import AskingError, ask, hub_kubeconfig, hub_options
from shoal.client.kubeconfig import KubeconfigError, load_endpoint
from shoal.client.requests import Client
from shoal.kinds import workload
from shoal.objects.names import is_dns1123_subdomain


@click.command(name="join-cluster")
@click.argument("name")
@click.option(
    "--kubeconfig-of-cluster",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Of the cluster that joins.",
)
@click.option("--context", default="", help="Of that kubeconfig. [its current one]")
@click.option(
    "--mode",
    type=click.Choice(["push", "pull"]),
    default="push",
    show_default=True,
    help="The hub reaches the cluster, or a syncer in the cluster reaches the hub.",
)
@click.option("--apply/--print", "apply", default=None, help="With pull: applies the manifest, or prints it. [print]")
@click.option("--namespace", default="default", show_default=True, help="With push: of the Secret on the hub.")
@click.option("--image", default=f"{IMAGE}:{__version__}", show_default=True, help="With pull: of the syncer.")
@click.option("--hub-server", default="", metavar="URL", help="With pull: the hub, as the cluster reaches it.")
@click.option(
    "--resources-to-sync",
    default=",".join(workload.DEFAULT_RESOURCES),
    show_default=True,
    metavar="A,B",
    help="With pull: what the syncer may write in the cluster.",
)
@hub_options
def command(
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
    """Makes an existing cluster a workload Cluster NAME of the hub."""
    wrong = is_dns1123_subdomain(name)
    if wrong or len(name) > workload.LONGEST_NAME:
        raise click.UsageError(f"{name}: {wrong[0] if wrong else f'at most {workload.LONGEST_NAME} characters'}")
    file = hub_kubeconfig(kubeconfig, data_dir)
    if mode == "push":
        if apply is not None:
            raise click.UsageError(
                "--apply and --print go with --mode pull: in push mode nothing is put into a cluster"
            )
        if kubeconfig_of_cluster is None:
            raise click.UsageError("--kubeconfig-of-cluster is missing: the hub has to reach the cluster")
        _push(file, name, namespace, kubeconfig_of_cluster, context)
        return
    if apply and kubeconfig_of_cluster is None:
        raise click.UsageError("--apply needs --kubeconfig-of-cluster")
    resources = tuple(each.strip() for each in resources_to_sync.split(",") if each.strip())
    wanted = _installation(file, name, image, hub_server, resources)
    if apply:
        from shoal.assemble.joincluster import apply_manifest  # noqa: PLC0415

        assert kubeconfig_of_cluster is not None
        applied = ask(kubeconfig_of_cluster, None, lambda client: apply_manifest(client, wanted))
        for each in applied:
            click.echo(f"applied {each}", err=True)
    else:
        click.echo(yaml.safe_dump_all(manifest(wanted), sort_keys=False), nl=False)
        click.echo(f"next: kubectl apply -f - in the cluster, then kubectl -n {NAME} get pods", err=True)
    _follow(name)


def _push(file: Path, name: str, namespace: str, cluster: Path, context: str) -> None:
    # The syncer loads more slowly than help may take.
    from shoal.assemble.joincluster import join_push, self_contained  # noqa: PLC0415

    try:
        text = self_contained(cluster, context)
    except KubeconfigError as error:
        raise AskingError(str(error), error.hint) from None
    ask(file, None, lambda hub: join_push(hub, name, namespace, text))
    _follow(name)


def _installation(file: Path, name: str, image: str, hub_server: str, resources: tuple[str, ...]) -> Installation:
    from shoal.assemble.joincluster import join_pull  # noqa: PLC0415
    from shoal.assemble.membership import base_of  # noqa: PLC0415

    try:
        hub = load_endpoint(file)
    except KubeconfigError as error:
        raise AskingError(str(error), error.hint) from None
    server = hub_server or base_of(hub.server)
    if urlsplit(server).scheme != "https":
        raise click.UsageError(f"--hub-server {server}: give a URL such as https://hub.example.com:6443")
    if urlsplit(server).hostname in ("127.0.0.1", "localhost", "::1"):
        click.echo(
            f"note: {server} is reached from this machine only; for others, start the hub with "
            "--listen 0.0.0.0:6443 --advertise-address HOST, or give --hub-server",
            err=True,
        )

    async def register(client: Client) -> str:
        return await join_pull(client, name)

    token = ask(file, None, register)
    text = kubeconfig_text(server, hub.authority.encode(), token, f"shoal-syncer-{name}")
    return Installation(name, text, image, resources)


def _follow(name: str) -> None:
    click.echo(f"{name} is registered", err=True)
    click.echo(f"next: kubectl get clusters.workload.kcp.dev {name}", err=True)
