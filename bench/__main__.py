"""`python -m bench`: measures, prints, and stops every process it started, whatever happens."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

import orjson

from bench import (
    capi,
    clusters,
    etcd,
    fleet,
    measure,
    peer,
    placement,
    profile,
    provision,
    provision_story,
    provision_trickle,
    replicas,
    report,
    scheduling,
    story,
    sync,
)
from bench.plan import FULL, KEYS, QUICK
from bench.servers import BenchmarkFailed, Shoal


def main() -> None:
    asked = arguments().parse_args()
    # As Ctrl-C: the blocks that stop what was started are run.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if asked.profile:
            profile.run(asked.profile, quick=asked.quick, top=asked.top)
        else:
            bench(asked)
    except BenchmarkFailed as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Benchmarks of Shoal against kube-apiserver with etcd."
    )
    parser.add_argument("--quick", action="store_true", help="small counts, one round: checks that the benchmarks work")
    parser.add_argument(
        "--only", type=_keys, default=set(KEYS), help=f"benchmarks to run, of {','.join(KEYS)}", metavar="A,B"
    )
    parser.add_argument("--rounds", type=int, help="rounds of every load; the median is reported")
    parser.add_argument(
        "--mip", type=float, metavar="SECONDS", help="time limit of each search for the best packing (provision)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="write the tables between the result marks of this page"
    )
    parser.add_argument("--profile", choices=sorted(profile.JOBS), help="profile Shoal instead of comparing")
    parser.add_argument("--top", type=int, default=40, help="number of lines of the profile")
    return parser


def _keys(text: str) -> set[str]:
    keys = {key.strip() for key in text.split(",")}
    if unknown := keys - set(KEYS):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: choose from {', '.join(KEYS)}")
    return keys


def bench(asked: argparse.Namespace) -> None:
    sizes = QUICK if asked.quick else FULL
    if asked.rounds:
        sizes = replace(sizes, rounds=asked.rounds)
    if asked.mip:
        sizes = replace(sizes, mip_seconds=asked.mip)
    programs = peer.find_programs()
    peers: dict[str, measure.Make] = {}
    if programs:
        peers[report.PEER] = lambda directory: peer.KubeApiserver(directory, programs)
    else:
        print("NOT RUN: kube-apiserver (kube-apiserver or etcd not found in $SHOAL_PEERS, ~/.cache/shoal/bin or PATH)")
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as directory:
        rows = measure.run(asked.only, sizes, {report.SHOAL: Shoal, **peers}, Path(directory), say)
        if "etcd" in asked.only and programs:
            rows += measure.on_etcd(sizes, etcd.ways(programs["etcd"]), peers, Path(directory), say)
        if "story" in asked.only:
            rows += story.run(sizes, Path(directory), say)
        if "clusters" in asked.only:
            rows += clusters.run(sizes, Path(directory), say)
        if "capi" in asked.only:
            rows += capi.run(sizes, Path(directory), say)
        if "scheduler" in asked.only:
            rows += scheduling.run(sizes, Path(directory), say)
        if "replicas" in asked.only:
            rows += replicas.run(sizes, Path(directory), say)
        if "fleet" in asked.only:
            rows += fleet.run(sizes, Path(directory), say)
        if "sync" in asked.only:
            rows += sync.run(sizes, Path(directory), say)
        if "placement" in asked.only:
            rows += placement.run(sizes, Path(directory), say)
        if "provision" in asked.only:
            rows += provision.run(sizes, Path(directory), say)
            rows += provision_story.run(sizes, Path(directory), say)
        if "trickle" in asked.only:
            rows += provision_trickle.run(sizes, Path(directory), say)
    conditions = report.conditions(peer.versions(programs) if programs else "")
    parts = [conditions, report.tables(rows), report.footnotes(rows)]
    text = "\n\n".join(part for part in parts if part)
    print(text)
    if asked.json:
        found = {"conditions": conditions, "rows": [asdict(row) for row in rows]}
        asked.json.write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2))
    if asked.page:
        report.write_into(asked.page, text)


def say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
