"""Content negotiation: output media type (Accept) and input media type (Content-Type).

An object is served as itself, as a row of a Table, or as its metadata alone; each as JSON, YAML or, for built-in kinds,
protobuf. Everything upstream rejects with 406 or 415 is rejected here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from shoal.apiserver.request.options import parse_query
from shoal.objects.errors import NotAcceptable, UnsupportedMedia
from shoal.objects.wire import Request

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
YAML = "application/yaml"

PATCH_TYPES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}


@dataclass(frozen=True, slots=True)
class OutputMediaType:
    """`mode` is object, table or partial. `meta_version` is the version of meta.k8s.io for the latter two."""

    mode: str = "object"
    meta_version: str = ""
    pretty: bool = False
    media_type: str = ""
    """Empty for JSON, else PROTOBUF or YAML."""
    partial_list: bool = False
    """For metadata alone: a PartialObjectMetadataList was requested."""


DEFAULT_OUTPUT = OutputMediaType()
_ALL_TYPES = (JSON, YAML, PROTOBUF)
_ROUTABLE_TYPES = (*_ALL_TYPES, "*/*")
"""Media types a route of a built-in kind accepts. Their parameters are checked afterwards."""
_STREAM_TYPES = (JSON, PROTOBUF)
_WATCH_TYPES = tuple(f"{name};stream=watch" for name in _STREAM_TYPES)
_WILDCARDS = ("*/*", "application/*")
_OFFERED_TYPES = {
    (False, False): (_ALL_TYPES, _ALL_TYPES),
    (True, False): ((JSON, YAML), _ALL_TYPES),
    (False, True): (_STREAM_TYPES, _STREAM_TYPES),
    (True, True): ((JSON,), _STREAM_TYPES),
}
"""(custom, watching) -> media types of the object itself, media types of its metadata."""


@lru_cache(maxsize=128)
def negotiate_json(header: str) -> OutputMediaType:
    """Selects the first media type of the Accept header for endpoints that only speak JSON."""
    return _select_output(header, (JSON,), (JSON,))


@lru_cache(maxsize=512)
def negotiate(header: str, custom: bool, verb: str) -> OutputMediaType:
    """Selects the output of a resource. Custom resources have protobuf for their metadata only, as upstream."""
    watching = verb == "watch"
    if not custom and header and not any(_media(clause) in _ROUTABLE_TYPES for clause in header.split(",")):
        routed = _ALL_TYPES + _WATCH_TYPES if watching or verb == "list" else _ALL_TYPES
        error = NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {', '.join(routed)}")
        error.always_has_details = True
        raise error
    return _select_output(header, *_OFFERED_TYPES[custom, watching])


def _media(clause: str) -> str:
    return clause.partition(";")[0].strip()


@lru_cache(maxsize=128)
def error_media_type(header: str) -> str:
    """The media type of a Status: the first known one, whatever its parameters."""
    for clause in _by_weight(header):
        media = clause.partition(";")[0].strip().lower()
        if media in _ALL_TYPES or media in _WILDCARDS:
            return media if media in (YAML, PROTOBUF) else ""
    return ""


def _select_output(header: str, plain: tuple[str, ...], offered: tuple[str, ...]) -> OutputMediaType:
    """`plain` are the media types of the object itself, `offered` those of its metadata. A Table is never protobuf."""
    if not header:
        return DEFAULT_OUTPUT
    for clause in _by_weight(header):
        media, _, rest = clause.partition(";")
        media = media.strip().lower()
        if media in _WILDCARDS:
            media = JSON
        if media not in offered:
            continue
        media_type = "" if media == JSON else media
        params = dict(pair.strip().partition("=")[::2] for pair in rest.split(";") if "=" in pair)
        kind = params.get("as", "")
        if not kind and media in plain:
            return OutputMediaType(pretty=params.get("pretty", "") not in ("", "0", "false"), media_type=media_type)
        if params.get("g") != "meta.k8s.io" or params.get("v") not in ("v1", "v1beta1"):
            continue
        if kind == "Table" and media != PROTOBUF:
            return OutputMediaType("table", params["v"], media_type=media_type)
        if kind in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return OutputMediaType("partial", params["v"], media_type=media_type, partial_list=kind.endswith("List"))
    names = _WATCH_TYPES if offered == _STREAM_TYPES else offered
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


def reject_transform(output: OutputMediaType) -> None:
    """Rejects a Table for responses that cannot be one (reviews, discovery, subresources with their own kind)."""
    if output.mode == "table":
        raise NotAcceptable(f"only the following media types are accepted: {JSON}")


@lru_cache(maxsize=128)
def request_media_type(header: str) -> str:
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
    patch = PATCH_TYPES.get(media, "")
    if not patch and not custom:
        error = UnsupportedMedia("415: Unsupported Media Type")
        error.always_has_details = True
        raise error
    if not patch or (custom and patch == "strategic"):
        supported = [name for name, kind in PATCH_TYPES.items() if not (custom and kind == "strategic")]
        raise UnsupportedMedia(
            "the body of the request was in an unknown format - accepted media types include: " + ", ".join(supported)
        )
    return patch


def wants_pretty(request: Request) -> bool:
    """As upstream: if `pretty` is set in the query, or the user agent is a browser, curl or Wget."""
    if request.query and "pretty=" in request.query:
        return parse_query(request.query).get("pretty", "") in ("1", "true")
    return request.headers.get("user-agent", "").startswith(("curl", "Wget", "Mozilla/5.0"))
