"""Predicts how long a container runs and how it exits, from its command. Pure.

Covers `sleep 30`, `true`, a script of `sh -c` as far as `shell/` supports it, and the image `pause`. The outcome of any
other command is unknown and is not guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from shoal.controlplane.kubelet.shell.interpreter import (
    FOREVER,
    CommandOutcome,
    FileExists,
    run_command,
    run_script,
    unknown_file,
)
from shoal.controlplane.kubelet.shell.parser import Script, UnknownOutcome, parse_script

Object = dict[str, Any]

SHELLS = ("sh", "bash", "ash", "dash")
PAUSE_IMAGE = "pause"
"""The image that sleeps for ever."""
MAX_VALUE_SIZE = 128 * 1024
"""Linux starts no process with a longer variable or argument."""
replace_references = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_.-]*)(\))?").sub
match_metadata_field = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]").fullmatch


def predict_outcome(pod: Object, exists: FileExists = unknown_file) -> CommandOutcome | None:
    """Returns the outcome of a pod with one container. For restart policy Always, which most pods have, only the
    simplest commands are evaluated, and endless ones have no outcome.
    """
    containers = pod["spec"]["containers"]
    if len(containers) != 1:
        return None
    container, restarts = containers[0], restart_policy(pod) == "Always"
    command = (*(container.get("command") or ()), *(container.get("args") or ()))
    if not command:
        is_pause = not restarts and _base_name(container.get("image") or "").partition(":")[0] == PAUSE_IMAGE
        return CommandOutcome(FOREVER, 0) if is_pause else None
    outcome = _outcome_without_pod(command)
    if restarts:
        return outcome if outcome is not None and outcome.seconds < FOREVER else None
    return outcome or _outcome_in_pod(command, pod, exists)


def restart_policy(pod: Object) -> str:
    """A single container may have its own restart policy."""
    containers = pod["spec"]["containers"]
    own = containers[0].get("restartPolicy") if len(containers) == 1 else None
    return str(own or pod["spec"].get("restartPolicy") or "Always")


@lru_cache(maxsize=1024)
def _outcome_without_pod(words: tuple[str, ...]) -> CommandOutcome | None:
    """Handles commands that do not depend on the pod, which are nearly all."""
    try:
        if _base_name(words[0]) not in SHELLS:
            return run_command(words)
        script = _parse_script(words[2]) if _is_script(words) else None
        return run_script(script, {}, unknown_file) if script is not None else None
    except UnknownOutcome:
        return None


def _outcome_in_pod(words: tuple[str, ...], pod: Object, exists: FileExists) -> CommandOutcome | None:
    if not _is_script(words):
        return None
    variables = _environment(pod)
    text = _expand(words[2], variables)
    script = _parse_script(text) if text is not None else None
    try:
        return run_script(script, variables, exists) if script is not None else None
    except UnknownOutcome:
        return None


def _is_script(words: tuple[str, ...]) -> bool:
    return _base_name(words[0]) in SHELLS and len(words) == 3 and words[1] == "-c"


@lru_cache(maxsize=1024)
def _parse_script(text: str) -> Script | None:
    try:
        return parse_script(text)
    except UnknownOutcome:
        return None


def _environment(pod: Object) -> dict[str, str]:
    """Returns variables defined in the pod itself, not those of ConfigMaps, Secrets or the image."""
    variables: dict[str, str] = {}
    for each in pod["spec"]["containers"][0].get("env") or ():
        path = ((each.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath")
        value = _field_ref(pod, path) if path else None if each.get("valueFrom") else each.get("value") or ""
        expanded = None if value is None else _expand(value, variables)
        if expanded is None:
            variables.pop(each["name"], None)
        else:
            variables[each["name"]] = expanded
    return variables


def _expand(text: str, variables: Mapping[str, str]) -> str | None:
    """Replaces references to variables. None if the result is too long: each variable may double the one before."""
    size = 0

    def replace(found: re.Match[str]) -> str:
        nonlocal size
        value = variables.get(found[1], found[0]) if found[2] else found[0]
        size += len(value)
        return value if size <= MAX_VALUE_SIZE else ""

    expanded = replace_references(replace, text)
    return expanded if size <= MAX_VALUE_SIZE else None


def _field_ref(pod: Object, path: str) -> str | None:
    metadata = pod["metadata"]
    if member := match_metadata_field(path):
        return str((metadata.get(member[1]) or {}).get(member[2], ""))
    section, _, name = path.partition(".")
    if section == "metadata" and name in ("name", "namespace", "uid"):
        return str(metadata.get(name, ""))
    return str(pod["spec"].get(name, "")) if path in ("spec.nodeName", "spec.serviceAccountName") else None


def _base_name(word: str) -> str:
    return word.rpartition("/")[2]
