"""Eight clients on the same few objects: everything they saw fits one order of revisions."""

from __future__ import annotations

import random
import threading
import time

from tests.faults.revisions import Operation, problems
from tests.serving import WIDGETS, Cluster, Server, widget

NAMES = ("a", "b", "c")
CLIENTS = 8
ROUNDS = 120


def client(server: Server, name: str, number: int, history: list[Operation]) -> None:
    cluster = Cluster(server, name)
    dice = random.Random(number)
    for count in range(ROUNDS):
        which = dice.choice(NAMES)
        called = time.monotonic()
        step = dice.random()
        if step < 0.3:
            found = cluster.get(WIDGETS).ok()
            returned = time.monotonic()
            for item in found["items"]:
                _note(history, number, "read", item, called, returned)
            continue
        before = cluster.get(f"{WIDGETS}/{which}").ok()
        _note(history, number, "read", before, called, time.monotonic())
        if step < 0.8:
            called = time.monotonic()
            before["spec"]["size"] = 1 + number * ROUNDS + count
            answer = cluster.put(f"{WIDGETS}/{which}", before)
            assert answer.status in (200, 409), answer.body
            if answer.status == 200:
                _note(history, number, "write", answer.json, called, time.monotonic())
    cluster.close()


def _note(
    history: list[Operation], number: int, op: str, obj: dict[str, dict[str, str]], called: float, returned: float
) -> None:
    metadata = obj["metadata"]
    state = str(obj["spec"]["size"])
    history.append(Operation(number, op, metadata["name"], called, returned, int(metadata["resourceVersion"]), state))


def test_concurrent_clients_see_one_order(server: Server, cluster: Cluster) -> None:
    for name in NAMES:
        cluster.post(WIDGETS, widget(name)).ok()
    histories: list[list[Operation]] = [[] for _ in range(CLIENTS)]
    threads = [
        threading.Thread(target=client, args=(server, cluster.name, number, histories[number]))
        for number in range(CLIENTS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    history = [operation for each in histories for operation in each]
    assert sum(operation.op == "write" for operation in history) > CLIENTS * 5
    assert problems(history) == []


def test_checker_finds_a_stale_read() -> None:
    wrote = [Operation(1, "write", "a", 0, 1, 5, "x"), Operation(1, "write", "a", 2, 3, 6, "y")]
    assert problems([*wrote, Operation(2, "read", "a", 2.5, 4, 5, "x")]) == [], "it may have come before the write"
    assert problems([*wrote, Operation(2, "read", "a", 3.5, 4, 5, "x")]) == [
        "client 2: read of a gave 5, 6 was known before"
    ]
    assert problems([*wrote, Operation(2, "read", "a", 3.5, 4, 0, "")]) != [], "it is there, and was not found"


def test_checker_finds_a_read_older_than_one_before_it() -> None:
    read = [Operation(2, "read", "a", 1, 2, 7, "y"), Operation(3, "read", "a", 3, 4, 6, "x")]
    assert problems(read) == ["client 3: read of a gave 6, 7 was known before"]
    assert problems([Operation(2, "write", "a", 1, 2, 7, "y"), Operation(3, "write", "a", 3, 4, 6, "z")]) != []


def test_checker_finds_two_states_of_one_revision() -> None:
    two = [Operation(1, "read", "a", 0, 1, 5, "x"), Operation(2, "read", "a", 0, 1, 5, "y")]
    assert problems(two) == ["revision 5 is both ('a', 'x') and ('a', 'y')"]
