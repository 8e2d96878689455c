"""Reads manifests: files, folders, standard input; several documents, and lists of objects."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shoal.cli.options.hub import CommandError
from shoal.objects.errors import BadRequest

Object = dict[str, Any]
FILE_SUFFIXES = (".json", ".yaml", ".yml")


def read_manifests(filenames: Iterable[str], *, recursive: bool = False) -> list[Object]:
    """Reads in the given order; the files of a folder by name."""
    return [obj for given in filenames for file in _manifest_files(given, recursive) for obj in read_manifest(file)]


def read_manifest(filename: str) -> list[Object]:
    """`-` is standard input."""
    from shoal.objects.strictyaml import load_documents  # noqa: PLC0415  help reads nothing

    if filename.startswith(("http://", "https://")):
        raise CommandError(f"{filename} is not a file", f"curl -sSf {filename} | shoal apply -f -")
    try:
        content = sys.stdin.buffer.read() if filename == "-" else Path(filename).read_bytes()
        documents = [obj for obj in load_documents(content) if obj]
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CommandError(
            f"{filename} cannot be read: {reason}", "give a file, a directory, or - for standard input"
        ) from None
    except BadRequest as error:
        reason = " ".join(str(error).split())
        raise CommandError(f"{filename} cannot be read: {reason}", "a manifest is YAML or JSON") from None
    documents = [item for obj in documents for item in _list_items(obj)]
    for obj in documents:
        if not isinstance(obj, dict) or not obj.get("kind") or not _has_name(obj.get("metadata")):
            raise CommandError(
                f"{filename} contains a document that is not a named object", "each object needs kind and metadata.name"
            )
    return documents


def with_default_namespace(obj: Object, namespace: str) -> Object:
    """Sets that namespace if the object has none."""
    return {**obj, "metadata": {"namespace": namespace, **obj["metadata"]}}


def _manifest_files(given: str, recursive: bool) -> list[str]:
    folder = Path(given)
    if given == "-" or not folder.is_dir():
        return [given]
    paths = sorted(folder.rglob("*") if recursive else folder.iterdir())
    files = [str(file) for file in paths if file.suffix in FILE_SUFFIXES and file.is_file()]
    if not files:
        deeper = "" if recursive else ", or give -R to read subdirectories"
        raise CommandError(f"{given} has no manifests", f"file names end with {', '.join(FILE_SUFFIXES)}{deeper}")
    return files


def _has_name(metadata: object) -> bool:
    return isinstance(metadata, dict) and bool(metadata.get("name"))


def _list_items(obj: Object) -> list[Object]:
    is_list = isinstance(obj, dict) and str(obj.get("kind", "")).endswith("List") and "items" in obj
    return list(obj["items"] or ()) if is_list else [obj]
