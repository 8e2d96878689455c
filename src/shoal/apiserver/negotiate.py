"""Which form an answer takes (Accept) and which a body has (Content-Type).

Forms of an object: itself as JSON, a row of a Table, or its metadata alone. What upstream refuses with 406
or 415 is refused here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from shoal.objects.errors import NotAcceptable, UnsupportedMedia

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
YAML = "application/yaml"

PATCHES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}


@dataclass(frozen=True, slots=True)
class View:
    """`mode` is object, table or partial; `version` that of meta.k8s.io for the latter two."""

    mode: str = "object"
    version: str = ""
    pretty: bool = False


PLAIN = View()


@lru_cache(maxsize=512)
def accepted(header: str) -> View:
    """The first form of the Accept header that can be served."""
    if not header:
        return PLAIN
    for clause in header.split(","):
        media, _, rest = clause.partition(";")
        media = media.strip().lower()
        if media not in (JSON, "*/*", "application/*"):
            continue
        params = dict(pair.strip().partition("=")[::2] for pair in rest.split(";") if "=" in pair)
        kind = params.get("as", "")
        if not kind:
            return View(pretty=params.get("pretty", "") not in ("", "0", "false"))
        if params.get("g") != "meta.k8s.io" or params.get("v") not in ("v1", "v1beta1"):
            continue
        if kind == "Table":
            return View("table", params["v"])
        if kind in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return View("partial", params["v"])
    raise NotAcceptable(f"only the following media types are accepted: {JSON}")


def no_transform(view: View) -> None:
    """For answers that cannot be a Table or metadata alone (reviews, discovery, subresources of their own)."""
    if view.mode == "table":
        raise NotAcceptable(f"only the following media types are accepted: {JSON}")


@lru_cache(maxsize=128)
def body_type(header: str) -> str:
    """JSON, PROTOBUF or YAML."""
    media = header.partition(";")[0].strip().lower()
    if media in ("", JSON):
        return JSON
    if media == PROTOBUF:
        return PROTOBUF
    if media in (YAML, "application/x-yaml", "text/yaml"):
        return YAML
    raise UnsupportedMedia(
        f"the body of the request was in an unknown format - accepted media types include: {JSON}, {YAML}, {PROTOBUF}"
    )


def patch_type(header: str, custom: bool) -> str:
    """json, merge, strategic or apply. Custom resources have no strategic merge, as upstream."""
    media = header.partition(";")[0].strip().lower()
    found = PATCHES.get(media, "")
    if not found or (custom and found == "strategic"):
        supported = [name for name, kind in PATCHES.items() if not (custom and kind == "strategic")]
        raise UnsupportedMedia(
            "the body of the request was in an unknown format - accepted media types include: " + ", ".join(supported)
        )
    return found
