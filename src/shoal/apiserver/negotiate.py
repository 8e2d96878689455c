"""Content negotiation: output media type (Accept) and input media type (Content-Type).

An object is served as itself, as a row of a Table, or as its metadata alone; each as JSON, YAML or, for built-in kinds,
protobuf. Everything upstream rejects with 406 or 415 is rejected here.
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
    """`mode` is object, table or partial. `meta_version` is the version of meta.k8s.io for the latter two."""

    mode: str = "object"
    version: str = ""
    pretty: bool = False
    form: str = ""
    """Empty for JSON, else PROTOBUF or YAML."""
    listed: bool = False
    """For metadata alone: a PartialObjectMetadataList was requested."""


PLAIN = View()
_EVERY = (JSON, YAML, PROTOBUF)
_ROUTED = (*_EVERY, "*/*")
"""Media types a route of a built-in kind accepts. Their parameters are checked afterwards."""
_STREAMED = (JSON, PROTOBUF)
_WATCHED = tuple(f"{name};stream=watch" for name in _STREAMED)
_ANY = ("*/*", "application/*")
_OFFERED = {
    (False, False): (_EVERY, _EVERY),
    (True, False): ((JSON, YAML), _EVERY),
    (False, True): (_STREAMED, _STREAMED),
    (True, True): ((JSON,), _STREAMED),
}
"""(custom, watching) -> media types of the object itself, media types of its metadata."""


@lru_cache(maxsize=128)
def accepted(header: str) -> View:
    """Selects the first media type of the Accept header for endpoints that only speak JSON."""
    return _first(header, (JSON,), (JSON,))


@lru_cache(maxsize=512)
def negotiated(header: str, custom: bool, verb: str) -> View:
    """Selects the output of a resource. Custom resources have protobuf for their metadata only, as upstream."""
    watching = verb == "watch"
    if not custom and header and not any(_media(clause) in _ROUTED for clause in header.split(",")):
        routed = _EVERY + _WATCHED if watching or verb == "list" else _EVERY
        refusal = NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {', '.join(routed)}")
        refusal.detailed = True
        raise refusal
    return _first(header, *_OFFERED[custom, watching])


def _media(clause: str) -> str:
    return clause.partition(";")[0].strip()


@lru_cache(maxsize=128)
def failure_form(header: str) -> str:
    """The media type of a Status: the first known one, whatever its parameters."""
    for clause in _by_weight(header):
        media = clause.partition(";")[0].strip().lower()
        if media in _EVERY or media in _ANY:
            return media if media in (YAML, PROTOBUF) else ""
    return ""


def _first(header: str, plain: tuple[str, ...], offered: tuple[str, ...]) -> View:
    """`plain` are the media types of the object itself, `offered` those of its metadata. A Table is never protobuf."""
    if not header:
        return PLAIN
    for clause in _by_weight(header):
        media, _, rest = clause.partition(";")
        media = media.strip().lower()
        if media in _ANY:
            media = JSON
        if media not in offered:
            continue
        form = "" if media == JSON else media
        params = dict(pair.strip().partition("=")[::2] for pair in rest.split(";") if "=" in pair)
        kind = params.get("as", "")
        if not kind and media in plain:
            return View(pretty=params.get("pretty", "") not in ("", "0", "false"), form=form)
        if params.get("g") != "meta.k8s.io" or params.get("v") not in ("v1", "v1beta1"):
            continue
        if kind == "Table" and media != PROTOBUF:
            return View("table", params["v"], form=form)
        if kind in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return View("partial", params["v"], form=form, listed=kind.endswith("List"))
    names = _WATCHED if offered == _STREAMED else offered
    raise NotAcceptable(f"only the following media types are accepted: {', '.join(names)}")


def _by_weight(header: str) -> list[str]:
    """The clauses as written, or by weight if some have one."""
    clauses = header.split(",")
    return sorted(clauses, key=_weight, reverse=True) if ";q=" in header.replace(" ", "") else clauses


def _weight(clause: str) -> float:
    _, found, text = clause.replace(" ", "").partition(";q=")
    try:
        return float(text.partition(";")[0]) if found else 1.0
    except ValueError:
        return 1.0


def no_transform(view: View) -> None:
    """Rejects a Table for responses that cannot be one (reviews, discovery, subresources with their own kind)."""
    if view.mode == "table":
        raise NotAcceptable(f"only the following media types are accepted: {JSON}")


@lru_cache(maxsize=128)
def body_type(header: str) -> str:
    """Returns JSON, PROTOBUF or YAML."""
    media = header.partition(";")[0].strip().lower()
    if media == JSON or not header:
        return JSON
    if media == PROTOBUF:
        return PROTOBUF
    if media in (YAML, "application/x-yaml", "text/yaml"):
        return YAML
    raise UnsupportedMedia(
        f"the body of the request was in an unknown format - accepted media types include: {JSON}, {YAML}, {PROTOBUF}"
    )


def patch_type(header: str, custom: bool) -> str:
    """Returns json, merge, strategic or apply. Custom resources have no strategic merge, as upstream."""
    media = header.partition(";")[0].strip().lower()
    found = PATCHES.get(media, "")
    if not found and not custom:
        refusal = UnsupportedMedia("415: Unsupported Media Type")
        refusal.detailed = True
        raise refusal
    if not found or (custom and found == "strategic"):
        supported = [name for name, kind in PATCHES.items() if not (custom and kind == "strategic")]
        raise UnsupportedMedia(
            "the body of the request was in an unknown format - accepted media types include: " + ", ".join(supported)
        )
    return found
