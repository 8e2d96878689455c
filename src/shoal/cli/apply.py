"""`shoal apply`: server-side apply of manifests, for machines without kubectl."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from shoal.cli.manifests import read_manifests, with_default_namespace
from shoal.cli.options.hub import EXIT_DENIED, CommandError, call_hub, hub_options
from shoal.cli.printers import format_output
from shoal.client.rest import Client
from shoal.client.restmapper import APIResource, mapping_for, server_resources
from shoal.objects.errors import Conflict, Forbidden, NotFound, StatusError, Unauthorized

Object = dict[str, Any]
DISCOVERY_TIMEOUT_SECONDS, POLL_SECONDS = 15.0, 0.1
"""How long to wait for a kind whose CustomResourceDefinition was just applied."""
CRD_KIND = "CustomResourceDefinition"


@click.command(name="apply")
@click.option(
    "-f", "--filename", "filenames", required=True, multiple=True, help="File, directory, or - for standard input."
)
@click.option("-R", "--recursive", is_flag=True, help="Also read subdirectories.")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of objects that specify none.")
@click.option(
    "--dry-run", type=click.Choice(["none", "server"]), default="none", help="server: validate without persisting."
)
@click.option("--force-conflicts", is_flag=True, help="Take over fields of other field managers.")
@click.option("--field-manager", default="shoal-apply", show_default=True, help="Name of the field manager.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@hub_options
def command(
    *,
    filenames: tuple[str, ...],
    recursive: bool,
    namespace: str,
    dry_run: str,
    force_conflicts: bool,
    field_manager: str,
    output: str,
    kubeconfig: Path | None,
    data_dir: Path | None,
) -> None:
    """Applies objects by server-side apply, in the order given. An error does not stop the remaining objects."""
    manifests = read_manifests(filenames, recursive=recursive)
    if not manifests:
        raise CommandError("there is nothing to apply", "the files have no objects in them")

    async def request(client: Client) -> tuple[list[Object], list[CommandError]]:
        applier = ManifestApplier(client, field_manager, force=force_conflicts, dry_run=dry_run == "server")
        return await applier.apply_all(manifests, namespace, print_lines=output == "text")

    applied, failures = call_hub(kubeconfig, data_dir, request, "" if output == "text" else "applying")
    if output != "text":
        printed = (
            applied[0] if len(manifests) == 1 and applied else {"apiVersion": "v1", "kind": "List", "items": applied}
        )
        click.echo(format_output(printed, output))
    if failures:
        *before, last = failures
        for error in before:
            click.echo(f"error: {error}", err=True)
        raise last


class ManifestApplier:
    """One run. Discovery is read once, and again only if a manifest may have changed it."""

    def __init__(self, client: Client, manager: str, *, force: bool, dry_run: bool) -> None:
        self._client, self._manager, self._force, self._dry_run = client, manager, force, dry_run
        self._resources: list[APIResource] = []
        self._applied_crds: set[tuple[str, str]] = set()
        """Group and kind of applied CustomResourceDefinitions."""

    async def apply_all(
        self, manifests: list[Object], namespace: str, *, print_lines: bool
    ) -> tuple[list[Object], list[CommandError]]:
        self._resources = await server_resources(self._client)
        applied: list[Object] = []
        failures: list[CommandError] = []
        for obj in manifests:
            try:
                kind, applied_object = await self._apply_one(obj, namespace)
            except CommandError as error:
                failures.append(error)
                continue
            applied.append(applied_object)
            if print_lines:
                dry = " (server dry run)" if self._dry_run else ""
                click.echo(f"{kind.display_name}/{obj['metadata']['name']} serverside-applied{dry}")
                sys.stdout.flush()
        return applied, failures

    async def _apply_one(self, obj: Object, namespace: str) -> tuple[APIResource, Object]:
        title = f"{obj['kind']} {obj['metadata']['name']}"
        kind = await self._resource_for(obj)
        if kind.gvr.namespaced:
            obj = with_default_namespace(obj, namespace)
        try:
            applied = await self._client.apply(
                kind.gvr, obj, self._manager, force=self._force, dry_run=self._dry_run, strict=True
            )
        except Conflict as error:
            raise CommandError(f"{title}: {error}", "add --force-conflicts to take over the fields") from None
        except (Forbidden, Unauthorized) as error:
            raise CommandError(
                f"{title}: {error}", "shoal kubeconfig prints the administrator's kubeconfig", EXIT_DENIED
            ) from None
        except NotFound as error:
            hint = f"apply a Namespace {obj['metadata'].get('namespace')} first" if kind.gvr.namespaced else ""
            raise CommandError(f"{title}: {error}", hint) from None
        except StatusError as error:
            raise CommandError(f"{title}: {error}") from None
        if obj["kind"] == CRD_KIND:
            spec = applied.get("spec") or {}
            self._applied_crds.add((spec.get("group", ""), (spec.get("names") or {}).get("kind", "")))
        return kind, applied

    async def _resource_for(self, obj: Object) -> APIResource:
        import asyncio  # noqa: PLC0415  the event loop runs by now; help does not need it

        resource = mapping_for(self._resources, obj)
        group = str(obj.get("apiVersion") or "").rpartition("/")[0]
        is_expected = not self._dry_run and (group, obj["kind"]) in self._applied_crds
        deadline = time.monotonic() + DISCOVERY_TIMEOUT_SECONDS
        while resource is None and is_expected and time.monotonic() < deadline:
            await asyncio.sleep(POLL_SECONDS)
            self._resources = await server_resources(self._client)
            resource = mapping_for(self._resources, obj)
        if resource is None:
            kind_text = f"{obj['kind']} of {obj.get('apiVersion') or 'no apiVersion'}"
            hint = "register a cluster that serves this kind, or apply its CustomResourceDefinition"
            raise CommandError(f"{obj['metadata']['name']}: the hub does not serve {kind_text}", hint)
        return resource
