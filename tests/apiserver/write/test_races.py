"""Concurrent creation of one object: one client succeeds, and the others see its object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.serving import Answer, Cluster, config_map

MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
WRITERS = 8


@pytest.fixture
def writers(cluster: Cluster) -> Iterator[list[Cluster]]:
    writers = [Cluster(cluster.server, cluster.name) for _ in range(WRITERS)]
    yield writers
    for writer in writers:
        writer.close()


def test_who_is_told_that_it_exists_finds_it(writers: list[Cluster]) -> None:
    def write(writer: Cluster, name: str) -> tuple[int, int]:
        made = writer.post(MAPS, config_map(name))
        return made.status, writer.get(f"{MAPS}/{name}").status

    with ThreadPoolExecutor(WRITERS) as pool:
        for number in range(20):
            found = list(pool.map(write, writers, [f"m{number}"] * WRITERS))
            assert sorted(found) == [(201, 200)] + [(409, 200)] * (WRITERS - 1)


def test_all_who_apply_it_are_merged(writers: list[Cluster]) -> None:
    def write(writer: Cluster, name: str, key: str) -> Answer:
        return writer.patch(f"{MAPS}/{name}?fieldManager={key}", config_map(name, {key: "x"}), "apply")

    keys = [f"k{number}" for number in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as pool:
        for number in range(20):
            name = f"m{number}"
            statuses = [answer.status for answer in pool.map(write, writers, [name] * WRITERS, keys)]
            assert sorted(statuses) == [200] * (WRITERS - 1) + [201]
            made = writers[0].get(f"{MAPS}/{name}").ok()
            assert made["data"] == dict.fromkeys(keys, "x")
            assert {entry["manager"] for entry in made["metadata"]["managedFields"]} == set(keys)


def test_all_but_one_who_put_it_need_its_version(writers: list[Cluster]) -> None:
    """A Lease is made by PUT; who comes second updates, and an update of a Lease names what it updates."""

    def write(writer: Cluster, name: str) -> Answer:
        return writer.put(f"{LEASES}/{name}", {"metadata": {"name": name}, "spec": {"leaseTransitions": 1}})

    with ThreadPoolExecutor(WRITERS) as pool:
        for number in range(10):
            answers = list(pool.map(write, writers, [f"l{number}"] * WRITERS))
            assert sorted(answer.status for answer in answers) == [201] + [422] * (WRITERS - 1)
            words = {json.loads(answer.body)["message"] for answer in answers if answer.status == 422}
            assert len(words) == 1
            assert words.pop().endswith("metadata.resourceVersion: Invalid value: 0: must be specified for an update")
