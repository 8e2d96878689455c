"""Discovery, lists in pages, views, and watches."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.kinds.catalogue import profile_builtins
from tests.real.differential.asking import Ask, Story
from tests.real.differential.kinds import MERGE, NAMESPACE, PARTIAL, PROTOBUF, TABLE
from tests.serving import config_map, widget

MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
WIDGETS = f"/apis/example.com/v1/namespaces/{NAMESPACE}/widgets"
CHOSEN = "labelSelector=story%3Dpages"
PAGED = f"{MAPS}?{CHOSEN}"


def stories() -> Iterator[Story]:
    for path in sorted(
        {f"/apis/{each.api_version}" if each.group else "/api/v1" for each in profile_builtins("cluster")}
    ):
        yield Story(f"discovery: {path}", (Ask("GET", path),))
        if path != "/api/v1":
            yield Story(f"discovery: group {path}", (Ask("GET", path.rpartition("/")[0]),))
    yield Story("discovery: /apis/example.com/v1", (Ask("GET", "/apis/example.com/v1"),))
    yield Story("discovery: /api", (Ask("GET", "/api"),))
    yield Story("lists: pages", tuple(_pages()))
    yield Story("lists: versions", tuple(_versions()))
    yield Story("watches: life", tuple(_life()))
    yield Story("watches: selector", tuple(_leaving()))
    yield Story("watches: widgets", tuple(_widgets()))
    for query in _watch_options():
        chosen = "" if "labelSelector" in query else "&labelSelector=story%3Dnobody"
        path = f"{MAPS}?watch=true&timeoutSeconds=1&{query}{chosen}"
        yield Story(f"watches: options {query}", (Ask("GET", path),))


def _maps(label: str, count: int) -> Iterator[Ask]:
    for number in range(count):
        yield Ask("POST", MAPS, config_map(f"{label}-{number}", {"n": str(number)}, labels={"story": label}))


def _pages() -> Iterator[Ask]:
    yield from _maps("pages", 5)
    yield Ask("GET", f"{PAGED}&limit=2")
    yield Ask("GET", f"{PAGED}&limit=2&continue=@continue@")
    yield Ask("GET", f"{PAGED}&limit=2&continue=@continue@&resourceVersion=1")
    yield Ask("GET", f"{PAGED}&limit=2&continue=@continue@&resourceVersionMatch=Exact")
    yield Ask("GET", f"{MAPS}?limit=2&continue=@continue@")
    yield Ask("GET", f"{PAGED}&limit=3&continue=@continue@", headers={"Accept": TABLE})
    yield Ask("GET", f"{PAGED}&limit=5")
    yield Ask("GET", f"{PAGED}&limit=500")
    for accept in (TABLE, PARTIAL.replace("Metadata;", "MetadataList;"), PARTIAL, PROTOBUF, "application/yaml"):
        yield Ask("GET", f"{PAGED}&limit=1", headers={"Accept": accept})
    yield Ask("GET", f"{PAGED}&limit=1&includeObject=Object", headers={"Accept": TABLE})
    yield Ask("GET", f"{PAGED}&limit=1&includeObject=x", headers={"Accept": TABLE})
    for include in ("None", "Metadata", "Object", "x"):
        yield Ask("GET", f"{MAPS}/pages-0?includeObject={include}", headers={"Accept": TABLE})
    yield Ask("DELETE", f"{PAGED}&limit=2")
    yield Ask("GET", PAGED)
    yield Ask("DELETE", PAGED, {"propagationPolicy": "Never"})
    yield Ask("DELETE", PAGED)
    yield Ask("GET", PAGED)


def _versions() -> Iterator[Ask]:
    yield from _maps("versions", 2)
    chosen = f"{MAPS}?labelSelector=story%3Dversions"
    for version in ("@first@", "@rv@", "0", ""):
        # Not older than the first: any state would do.
        for match in ("Exact",) if version == "@first@" else ("", "Exact", "NotOlderThan"):
            yield Ask("GET", f"{chosen}&resourceVersion={version}&resourceVersionMatch={match}")
            yield Ask("GET", f"{chosen}&resourceVersion={version}&resourceVersionMatch={match}&limit=1")
    for version in ("0", "@first@", "@rv@", "x", "-1"):
        yield Ask("GET", f"{MAPS}/versions-0?resourceVersion={version}")
    yield Ask("DELETE", f"{MAPS}/versions-0")
    yield Ask("GET", f"{MAPS}/versions-0?resourceVersion=0", until=404)
    yield Ask("GET", f"{chosen}&resourceVersion=@first@&resourceVersionMatch=Exact")


def _life() -> Iterator[Ask]:
    chosen = "fieldSelector=metadata.name%3Dwatched"
    path = f"{MAPS}/watched"
    yield Ask("POST", MAPS, config_map("before"))
    yield Ask("POST", MAPS, config_map("watched", {"n": "1"}))
    yield Ask("PATCH", path, {"data": {"n": "2"}}, {"Content-Type": MERGE})
    yield Ask("PATCH", path, {"data": {"n": "2"}}, {"Content-Type": MERGE})
    yield Ask("DELETE", path)
    for accept in ("application/json", TABLE, PARTIAL, "application/yaml", "text/html"):
        for since in ("@first@", "1"):
            query = f"watch=1&{chosen}&resourceVersion={since}"
            yield Ask("GET", f"{MAPS}?{query}", headers={"Accept": accept}, events=3)
    yield Ask("GET", f"/api/v1/watch/namespaces/{NAMESPACE}/configmaps/watched?resourceVersion=@first@", events=3)
    yield Ask("GET", f"/api/v1/watch/namespaces/{NAMESPACE}/configmaps?resourceVersion=@first@&{chosen}", events=3)


def _leaving() -> Iterator[Ask]:
    path = f"{MAPS}/leaving"
    yield Ask("POST", MAPS, config_map("earlier"))
    yield Ask("POST", MAPS, config_map("leaving", labels={"in": "no"}))
    for value in ("yes", "yes", "no", "yes"):
        yield Ask("PATCH", path, {"metadata": {"labels": {"in": value}}, "data": {}}, {"Content-Type": MERGE})
    yield Ask("DELETE", path)
    yield Ask("GET", f"{MAPS}?watch=1&labelSelector=in%3Dyes&resourceVersion=@first@", events=4)
    yield Ask("GET", f"{MAPS}?watch=1&labelSelector=in&resourceVersion=@first@", events=5)


def _widgets() -> Iterator[Ask]:
    path = f"{WIDGETS}/watched"
    yield Ask("POST", WIDGETS, widget("before"))
    yield Ask("POST", WIDGETS, widget("watched"))
    yield Ask("PATCH", path, {"spec": {"size": 3}}, {"Content-Type": MERGE})
    yield Ask("PATCH", f"{path}/status", {"status": {"ready": True}}, {"Content-Type": MERGE})
    yield Ask("DELETE", path)
    chosen = "fieldSelector=metadata.name%3Dwatched"
    for accept in ("application/json", TABLE, PARTIAL):
        yield Ask("GET", f"{WIDGETS}?watch=1&{chosen}&resourceVersion=@first@", headers={"Accept": accept}, events=4)


def _watch_options() -> Iterator[str]:
    nobody = "labelSelector=story%3Dnobody"
    yield from (f"resourceVersion=x&{nobody}", f"resourceVersion=-1&{nobody}", "labelSelector=a%3D%3D%3D")
    yield from ("fieldSelector=spec.no%3D1", "resourceVersionMatch=Exact", "resourceVersionMatch=NotOlderThan")
    yield from ("sendInitialEvents=true", "sendInitialEvents=false", "sendInitialEvents=x")
    yield from ("sendInitialEvents=true&resourceVersionMatch=Exact", "continue=x", "allowWatchBookmarks=x")
    yield from ("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=x",)
    yield from (f"limit=1&{nobody}", "timeoutSeconds=x", "resourceVersion=99999999999")
