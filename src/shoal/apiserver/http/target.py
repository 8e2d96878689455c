"""The target of a request: its path, percent-decoded, and its query."""

from __future__ import annotations

from shoal.objects.errors import BadRequest

_HEX_BYTES = {f"{a}{b}": bytes.fromhex(f"{a}{b}") for a in "0123456789abcdefABCDEF" for b in "0123456789abcdefABCDEF"}


def split_target(raw: bytes) -> tuple[str, str]:
    """Returns path and query. Raises BadRequest."""
    target = raw.decode("latin-1")
    if not target.startswith("/"):
        scheme, separator, rest = target.partition("://")
        if not separator or scheme.lower() not in ("http", "https"):
            raise BadRequest(f"unsupported request target: {target}")
        target = rest[len(rest.split("/", 1)[0].split("?", 1)[0]) :]
        target = target if target.startswith("/") else "/" + target
    path, _, query = target.partition("#")[0].partition("?")
    if "%" in path:
        try:
            path = _percent_decode(path)
        except (KeyError, UnicodeDecodeError):
            raise BadRequest(f"invalid URL escape in path: {path}") from None
    return path, query


def _percent_decode(path: str) -> str:
    first, *rest = path.split("%")
    return b"".join(
        [first.encode("latin-1"), *(_HEX_BYTES[part[:2]] + part[2:].encode("latin-1") for part in rest)]
    ).decode()
