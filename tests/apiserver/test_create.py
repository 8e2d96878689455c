"""POST."""

from __future__ import annotations

from tests.serving import WIDGETS, Cluster, widget


def test_a_created_object_has_what_the_server_sets(widgets: Cluster) -> None:
    made = widgets.post(WIDGETS, widget("a", 2)).ok()
    assert made["spec"] == {"size": 2, "replicas": 1}
    metadata = made["metadata"]
    assert metadata["generation"] == 1
    assert metadata["resourceVersion"].isdigit()
    assert metadata["uid"]
    assert metadata["creationTimestamp"].endswith("Z")
    assert widgets.get(f"{WIDGETS}/a").ok() == made
