"""`shoal crds`: Shoal's CustomResourceDefinitions, to install in any cluster."""

from __future__ import annotations

import click


@click.command(name="crds")
def command() -> None:
    """Prints the CustomResourceDefinitions of Shoal's own kinds, for kubectl apply -f -."""
    from shoal.kinds.shoal_crds import CRD_SETS, crd_manifests  # noqa: PLC0415  loads for longer than help may take

    click.echo("---\n".join(text for place in CRD_SETS for text in crd_manifests(place)), nl=False)
