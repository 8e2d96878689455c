"""A hub on an etcd cluster whose members die one after the other: no acknowledged write is lost, no event is missed."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest

from tests.etcd_cluster import EtcdCluster, running_etcd_cluster
from tests.faults.processes import HANG, Client, Refused, Up
from tests.faults.test_kill import DEFINITIONS, PATHS, Model, Watcher, Writer, object_with
from tests.serving import widget_definition

SECONDS = 60.0
END = "the-end"


class RetryingWriter(Writer):
    """Writes until it is stopped. A failed write may have been applied, so it checks."""

    def __init__(self, number: int, model: Model, stop: threading.Event) -> None:
        super().__init__(number, model)
        self._stop = stop
        self.refused = 0
        self.wrong: BaseException | None = None

    def run(self, client: Client) -> None:
        try:
            while not self._stop.is_set():
                try:
                    self._write(client)
                except Refused as refused:
                    if refused.status != 503:
                        raise
                    self.refused += 1
                    self.check(client)
        except BaseException as error:
            self.wrong = error


class ReportingWatcher(Watcher):
    """A watcher that reports its exception to the test."""

    wrong: BaseException | None = None

    def run(self, client: Client, until: str = "") -> None:
        try:
            super().run(client, until)
        except BaseException as error:
            self.wrong = error


def kill_one_by_one(cluster: EtcdCluster, seconds: float) -> int:
    dice = random.Random(3)
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        member = cluster.members[count % len(cluster.members)]
        member.stop()
        time.sleep(dice.uniform(0.2, 3.0))
        member.start(wait=False)
        cluster.wait(member)
        time.sleep(dice.uniform(0.2, 2.0))
        count += 1
    return count


def run_member_failures(data: Path, seconds: float) -> None:
    model, stop = Model(), threading.Event()
    writers = [RetryingWriter(number, model, stop) for number in range(1, 5)]
    watchers = [ReportingWatcher(path, model) for path in PATHS]
    with running_etcd_cluster() as cluster:
        up = Up(data, "--etcd-servers", cluster.endpoints, verb="hub")
        try:
            client = up.client()
            client.request("POST", DEFINITIONS, widget_definition())
            for watcher in watchers:
                watcher.begin(client)
            writing = [threading.Thread(target=writer.run, args=(up.client(),)) for writer in writers]
            watching = [threading.Thread(target=watcher.run, args=(up.client(), END)) for watcher in watchers]
            for thread in (*watching, *writing):
                thread.start()
            kills = kill_one_by_one(cluster, seconds)
            stop.set()
            _join(writing)
            for path in PATHS:
                client.request("POST", path, object_with((path, END), "7"))
            _join(watching)
            for wrong in [*(writer.wrong for writer in writers), *(watcher.wrong for watcher in watchers)]:
                if wrong is not None:
                    raise wrong
            for writer in writers:
                writer.check(client)
            for watcher in watchers:
                assert watcher.objects == watcher.list(client), "the watch missed something"
            acknowledged = sum(writer.acknowledged for writer in writers)
            refused = sum(writer.refused for writer in writers)
            assert acknowledged > 50 * kills, f"{acknowledged} acknowledged, {refused} refused, {kills} kills"
            code, said = up.terminate()
            assert code == 0
            assert "Traceback" not in said
        finally:
            stop.set()
            up.close()


def _join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(HANG)
        assert not thread.is_alive()


@pytest.mark.soak
def test_members_of_etcd_die_one_after_the_other(tmp_path: Path) -> None:
    run_member_failures(tmp_path / "data", SECONDS)
