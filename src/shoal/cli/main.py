"""The `shoal` program: finds the command by name and imports only that one, so that help stays fast."""

from __future__ import annotations

import importlib
import sys

import click

from shoal import __version__
from shoal.objects.errors import ShoalError

COMMANDS = {
    "up": "hub, workers and every loop in one process",
    "hub": "the API server and its loops",
    "worker": "joins a hub, hosts control planes",
    "join-token": "lets other machines join as workers",
    "worker-bundle": "prints what runs a worker in a cluster",
    "join-cluster": "makes an existing cluster one of the hub's workload Clusters",
    "syncer": "syncs one cluster, in it or anywhere",
    "controllers": "loops alone, at any API server",
    "nodes": "simulated nodes at any API server",
    "provisioner": "nodes for one cluster, just in time, from Cluster API Machines",
    "crds": "prints Shoal's CustomResourceDefinitions",
    "kubeconfig": "prints the admin's kubeconfig, or a managed cluster's",
    "status": "the fleet on one page",
    "explain": "why a managed cluster or a workload is where it is, or waits",
    "plan": "what manifests would place where, without applying them",
}


class Commands(click.Group):
    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command = importlib.import_module(f"shoal.cli.{name.replace('-', '')}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="shoal")
def shoal() -> None:
    """A fleet of Kubernetes clusters behind one Kubernetes API."""


def main() -> None:
    if sys.platform == "win32":
        fail("Windows is not supported natively", "run Shoal in WSL2")
    try:
        shoal()
    except ShoalError as error:
        fail(str(error), getattr(error, "hint", ""), getattr(error, "exit_code", 1))


def fail(message: str, hint: str = "", exit_code: int = 1) -> None:
    """What went wrong, then the command to type."""
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)
    raise SystemExit(exit_code)


if __name__ == "__main__":
    main()
