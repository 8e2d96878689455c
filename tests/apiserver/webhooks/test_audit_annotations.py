"""Audit annotations of webhooks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from shoal.apiserver.audit import AuditConfig, open_auditor
from shoal.clock import SystemClock
from tests.apiserver.webhooks.receiver import CONFIG_MAPS, Hooks, add, patch, reviewed
from tests.serving import config_map


def test_annotations_of_a_write(hooks: Hooks, tmp_path: Path) -> None:
    mutating = patch(add("/data/added", "yes"), auditAnnotations={"why": "because"})
    hooks.register("mutating", hooks.hook("change", mutating))
    hooks.register(
        "validating",
        hooks.hook("note", lambda review: reviewed(review, auditAnnotations={"seen": "yes"})),
        hooks.hook("sick", lambda review: b"", failurePolicy="Ignore"),
        hooks.hook("no", lambda review: reviewed(review, allowed=review["request"]["name"] != "b")),
    )
    app = hooks.cluster.server.shoal.server.app
    audit = open_auditor(AuditConfig(str(tmp_path / "audit.log")), SystemClock())
    assert audit is not None
    plain = app._server
    app._server = replace(plain, auditor=audit)
    try:
        hooks.cluster.post(CONFIG_MAPS, config_map("a", {"k": "v"})).ok()
        assert hooks.cluster.post(CONFIG_MAPS, config_map("b", {"k": "v"})).status == 400
    finally:
        app._server = plain
        audit.close()
    events = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    mine = [one for one in events if one["objectRef"]["resource"] == "configmaps"]
    assert [one["responseStatus"]["code"] for one in mine] == [201, 400]
    for event in mine:
        found = event["annotations"]
        assert (found["change.example.com/why"], found["note.example.com/seen"]) == ("because", "yes")
        assert found["failed-open.validating.webhook.admission.k8s.io/round_0_index_1"] == "sick.example.com"
        changed = json.loads(found["mutation.webhook.admission.k8s.io/round_0_index_0"])
        assert changed == {"configuration": "hooks", "webhook": "change.example.com", "mutated": True}
