"""`shoal apply`: server-side apply of manifests, for machines without kubectl."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from shoal.cli.asking import DENIED, AskingError, ask, hub_options
from shoal.cli.manifests import in_namespace, read_all
from shoal.cli.printing import as_text
from shoal.client.naming import Served, of_object, served
from shoal.client.requests import Client
from shoal.objects.errors import Conflict, Forbidden, NotFound, StatusError, Unauthorized

Object = dict[str, Any]
LEARN_SECONDS, LOOK_SECONDS = 15.0, 0.1
"""How long to wait for a kind whose CustomResourceDefinition was just applied."""
DEFINITION = "CustomResourceDefinition"


@click.command(name="apply")
@click.option(
    "-f", "--filename", "filenames", required=True, multiple=True, help="A file, a folder, or - for standard input."
)
@click.option("-R", "--recursive", is_flag=True, help="The folders in a folder too.")
@click.option("-n", "--namespace", default="default", show_default=True, help="Of objects that do not name theirs.")
@click.option("--dry-run", type=click.Choice(["none", "server"]), default="none", help="server: nothing is kept.")
@click.option("--force-conflicts", is_flag=True, help="Takes over fields that others manage.")
@click.option("--field-manager", default="shoal-apply", show_default=True, help="Who the fields belong to then.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@hub_options
def command(
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
    """Applies objects by server-side apply, in the order given. What fails does not keep the others from it."""
    given = read_all(filenames, recursive=recursive)
    if not given:
        raise AskingError("there is nothing to apply", "the files have no objects in them")

    async def question(client: Client) -> tuple[list[Object], list[AskingError]]:
        applying = Applying(client, field_manager, force=force_conflicts, dry=dry_run == "server")
        return await applying.all(given, namespace, say=output == "text")

    applied, failures = ask(kubeconfig, data_dir, question, "" if output == "text" else "applying")
    if output != "text":
        found = applied[0] if len(given) == 1 and applied else {"apiVersion": "v1", "kind": "List", "items": applied}
        click.echo(as_text(found, output))
    if failures:
        *before, last = failures
        for error in before:
            click.echo(f"error: {error}", err=True)
        raise last


class Applying:
    """One run. Discovery is read once, and again only if a manifest may have changed it."""

    def __init__(self, client: Client, manager: str, *, force: bool, dry: bool) -> None:
        self._client, self._manager, self._force, self._dry = client, manager, force, dry
        self._kinds: list[Served] = []
        self._defined: set[tuple[str, str]] = set()
        """Group and kind of applied CustomResourceDefinitions."""

    async def all(self, given: list[Object], namespace: str, *, say: bool) -> tuple[list[Object], list[AskingError]]:
        self._kinds = await served(self._client)
        applied: list[Object] = []
        failures: list[AskingError] = []
        for obj in given:
            try:
                kind, found = await self._one(obj, namespace)
            except AskingError as error:
                failures.append(error)
                continue
            applied.append(found)
            if say:
                dry = " (server dry run)" if self._dry else ""
                click.echo(f"{kind.title}/{obj['metadata']['name']} serverside-applied{dry}")
                sys.stdout.flush()
        return applied, failures

    async def _one(self, obj: Object, namespace: str) -> tuple[Served, Object]:
        title = f"{obj['kind']} {obj['metadata']['name']}"
        kind = await self._kind(obj)
        if kind.kind.namespaced:
            obj = in_namespace(obj, namespace)
        try:
            found = await self._client.apply(
                kind.kind, obj, self._manager, force=self._force, dry_run=self._dry, strict=True
            )
        except Conflict as error:
            raise AskingError(f"{title}: {error}", "--force-conflicts takes the fields over") from None
        except (Forbidden, Unauthorized) as error:
            raise AskingError(f"{title}: {error}", "shoal kubeconfig prints the administrator's", DENIED) from None
        except NotFound as error:
            hint = f"apply a Namespace {obj['metadata'].get('namespace')} first" if kind.kind.namespaced else ""
            raise AskingError(f"{title}: {error}", hint) from None
        except StatusError as error:
            raise AskingError(f"{title}: {error}") from None
        if obj["kind"] == DEFINITION:
            spec = found.get("spec") or {}
            self._defined.add((spec.get("group", ""), (spec.get("names") or {}).get("kind", "")))
        return kind, found

    async def _kind(self, obj: Object) -> Served:
        import asyncio  # noqa: PLC0415  the event loop runs by now; help does not need it

        found = of_object(self._kinds, obj)
        group = str(obj.get("apiVersion") or "").rpartition("/")[0]
        awaited = not self._dry and (group, obj["kind"]) in self._defined
        end = time.monotonic() + LEARN_SECONDS
        while found is None and awaited and time.monotonic() < end:
            await asyncio.sleep(LOOK_SECONDS)
            self._kinds = await served(self._client)
            found = of_object(self._kinds, obj)
        if found is None:
            named = f"{obj['kind']} of {obj.get('apiVersion') or 'no apiVersion'}"
            hint = "the hub learns kinds from its clusters and from CustomResourceDefinitions: shoal crds lists its own"
            raise AskingError(f"{obj['metadata']['name']}: the hub does not serve {named}", hint)
        return found
