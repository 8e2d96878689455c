"""Predicts how long a container runs and how it exits, from its command. Pure.

Covers `sleep 30`, `true`, a script of `sh -c` as far as `shell/` supports it, and the image `pause`. The outcome of any
other command is unknown and is not guessed.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from shoal.controlplane.nodes.shell.run import FOREVER, Ending, Exists, nobody_knows, run, run_words
from shoal.controlplane.nodes.shell.syntax import Script, Unknown, parse

Object = dict[str, Any]

SHELLS = ("sh", "bash", "ash", "dash")
PAUSE = "pause"
"""The image that sleeps for ever."""
REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
MEMBER = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


def pod_ending(pod: Object, exists: Exists = nobody_knows) -> Ending | None:
    """Returns the outcome of a pod with one container. For restart policy Always, which most pods have, only the
    simplest commands are evaluated, and endless ones have no outcome.
    """
    containers = pod["spec"]["containers"]
    if len(containers) != 1:
        return None
    container, restarts = containers[0], restart_policy(pod) == "Always"
    words = (*(container.get("command") or ()), *(container.get("args") or ()))
    if not words:
        pauses = not restarts and _program(container.get("image") or "").partition(":")[0] == PAUSE
        return Ending(FOREVER, 0) if pauses else None
    found = _plain(words)
    if restarts:
        return found if found is not None and found.seconds < FOREVER else None
    return found or _in_its_pod(words, pod, exists)


def restart_policy(pod: Object) -> str:
    """A single container may have its own restart policy."""
    containers = pod["spec"]["containers"]
    own = containers[0].get("restartPolicy") if len(containers) == 1 else None
    return str(own or pod["spec"].get("restartPolicy") or "Always")


@lru_cache(maxsize=1024)
def _plain(words: tuple[str, ...]) -> Ending | None:
    """Handles commands that do not depend on the pod, which are nearly all."""
    try:
        if _program(words[0]) not in SHELLS:
            return run_words(words)
        script = _script(words[2]) if _is_script(words) else None
        return run(script, {}, nobody_knows) if script is not None else None
    except Unknown:
        return None


def _in_its_pod(words: tuple[str, ...], pod: Object, exists: Exists) -> Ending | None:
    if not _is_script(words):
        return None
    variables = _environment(pod)
    script = _script(REFERENCE.sub(lambda found: variables.get(found[1], found[0]), words[2]))
    try:
        return run(script, variables, exists) if script is not None else None
    except Unknown:
        return None


def _is_script(words: tuple[str, ...]) -> bool:
    return _program(words[0]) in SHELLS and len(words) == 3 and words[1] == "-c"


@lru_cache(maxsize=1024)
def _script(text: str) -> Script | None:
    try:
        return parse(text)
    except Unknown:
        return None


def _environment(pod: Object) -> dict[str, str]:
    """Returns variables defined in the pod itself, not those of ConfigMaps, Secrets or the image."""
    found: dict[str, str] = {}
    for each in pod["spec"]["containers"][0].get("env") or ():
        path = ((each.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath")
        value = _field(pod, path) if path else None if each.get("valueFrom") else each.get("value") or ""
        if value is None:
            found.pop(each["name"], None)
        else:
            found[each["name"]] = REFERENCE.sub(lambda other: found.get(other[1], other[0]), value)
    return found


def _field(pod: Object, path: str) -> str | None:
    metadata = pod["metadata"]
    if member := MEMBER.fullmatch(path):
        return str((metadata.get(member[1]) or {}).get(member[2], ""))
    place, _, name = path.partition(".")
    if place == "metadata" and name in ("name", "namespace", "uid"):
        return str(metadata.get(name, ""))
    return str(pod["spec"].get(name, "")) if path in ("spec.nodeName", "spec.serviceAccountName") else None


def _program(word: str) -> str:
    return word.rpartition("/")[2]
