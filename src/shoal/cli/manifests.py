"""Reads manifests: files, folders, standard input; several documents, and lists of objects."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shoal.cli.asking import AskingError
from shoal.objects.errors import BadRequest

Object = dict[str, Any]
ENDINGS = (".json", ".yaml", ".yml")


def read_all(filenames: Iterable[str], *, recursive: bool = False) -> list[Object]:
    """Reads in the given order; the files of a folder by name."""
    return [obj for given in filenames for file in _files(given, recursive) for obj in read(file)]


def read(filename: str) -> list[Object]:
    """`-` is standard input."""
    from shoal.objects.yaml_read import loads_all  # noqa: PLC0415  help reads nothing

    if filename.startswith(("http://", "https://")):
        raise AskingError(f"{filename} is not a file", f"curl -sSf {filename} | shoal apply -f -")
    try:
        content = sys.stdin.buffer.read() if filename == "-" else Path(filename).read_bytes()
        found = [obj for obj in loads_all(content) if obj]
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise AskingError(
            f"{filename} cannot be read: {why}", "give a file, a folder, or - for what is piped"
        ) from None
    except BadRequest as error:
        why = " ".join(str(error).split())
        raise AskingError(f"{filename} cannot be read: {why}", "a manifest is YAML or JSON") from None
    found = [item for obj in found for item in _items(obj)]
    for obj in found:
        if not isinstance(obj, dict) or not obj.get("kind") or not _named(obj.get("metadata")):
            raise AskingError(
                f"{filename} has something that is not a named object", "each needs kind and metadata.name"
            )
    return found


def in_namespace(obj: Object, namespace: str) -> Object:
    """Sets that namespace if the object has none."""
    return {**obj, "metadata": {"namespace": namespace, **obj["metadata"]}}


def _files(given: str, recursive: bool) -> list[str]:
    folder = Path(given)
    if given == "-" or not folder.is_dir():
        return [given]
    found = sorted(folder.rglob("*") if recursive else folder.iterdir())
    files = [str(file) for file in found if file.suffix in ENDINGS and file.is_file()]
    if not files:
        deeper = "" if recursive else ", or give -R for the folders in it"
        raise AskingError(f"{given} has no manifests", f"they end with {', '.join(ENDINGS)}{deeper}")
    return files


def _named(metadata: object) -> bool:
    return isinstance(metadata, dict) and bool(metadata.get("name"))


def _items(obj: Object) -> list[Object]:
    is_list = isinstance(obj, dict) and str(obj.get("kind", "")).endswith("List") and "items" in obj
    return list(obj["items"] or ()) if is_list else [obj]
