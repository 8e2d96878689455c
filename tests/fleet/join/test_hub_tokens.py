"""Tokens that a hub creates for its own workers: which one is used, and who needs one."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from shoal.fleet.join.hub_tokens import hub_kubeconfig, needs_token, usable_token
from shoal.fleet.join.join_secrets import join_state
from shoal.kinds.fleet import worker_join

Object = dict[str, Any]

AT = 1_767_225_600.0  # 2026-01-01


def token(id_: str, name: str, expires: str, **marks: str) -> Object:
    secret = worker_join.new_token_secret((id_, "0123456789abcdef"), expires, name)
    secret["metadata"]["annotations"] |= {f"shoal.dev/{key.replace('_', '-')}": value for key, value in marks.items()}
    return secret


def worker(store: str = "", ready: str = "") -> Object:
    annotations = {"shoal.dev/store": store} if store else {}
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    return {"metadata": {"name": "far", "annotations": annotations}, "status": {"conditions": conditions}}


def test_the_token_that_lasts_longest() -> None:
    found = [
        token("aaaaaa", "far", "2026-01-01T01:00:00Z"),
        token("bbbbbb", "far", "2026-01-01T02:00:00Z"),
        token("cccccc", "near", "2026-01-01T03:00:00Z"),
    ]
    assert usable_token(found, "far", AT) == "bbbbbb.0123456789abcdef"
    assert usable_token(found, "far", AT + 7200) == ""


def test_a_token_that_was_used_can_be_left_out() -> None:
    found = [
        token("aaaaaa", "far", "2026-01-01T01:00:00Z"),
        token("bbbbbb", "far", "2026-01-01T02:00:00Z", used_by="far", request="uid"),
    ]
    assert usable_token(found, "far", AT) == "bbbbbb.0123456789abcdef"
    assert usable_token(found, "far", AT, unused=True) == "aaaaaa.0123456789abcdef"


@pytest.mark.parametrize(
    ("store", "ready", "needs"), [("", "", True), ("s", "", True), ("s", "Unknown", True), ("s", "True", False)]
)
def test_who_needs_a_token(store: str, ready: str, needs: bool) -> None:
    obj = worker(store, ready)
    assert needs_token(obj) == needs
    assert join_state(obj) == ("Waiting" if needs else "Joined")
    obj["metadata"]["annotations"]["shoal.dev/expelled"] = "true"
    assert not needs_token(obj)
    assert join_state(obj) == "Expelled"


def test_a_worker_that_does_not_exist_waits() -> None:
    assert join_state(None) == "Waiting"


def test_the_kubeconfig_of_a_hub() -> None:
    config = yaml.safe_load(hub_kubeconfig("https://hub:6443", "PEM", "abc", "shoal-server"))
    assert config["users"] == [{"name": "joining", "user": {"token": "abc"}}]
    assert config["clusters"][0]["cluster"] == {
        "server": "https://hub:6443",
        "certificate-authority-data": "UEVN",
        "tls-server-name": "shoal-server",
    }
    config = yaml.safe_load(hub_kubeconfig("https://hub:6443", "PEM", ""))
    assert config["users"] == [{"name": "joining", "user": {}}]
    assert "tls-server-name" not in config["clusters"][0]["cluster"]
