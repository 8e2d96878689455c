"""YAML responses decode to the same value as JSON in every parser."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from shoal.apiserver.response.yaml_encoder import YAMLEncoder, dump_yaml
from shoal.objects import strictyaml
from shoal.objects.errors import BadRequest
from tests.serving import WIDGETS, Answer, Cluster, config_map, widget

YAML = "application/yaml"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def read(answer: Answer, status: int = 200) -> Any:
    assert (answer.status, answer.headers["content-type"]) == (status, YAML), answer.body
    return yaml.safe_load(answer.body)


def test_objects_and_lists(widgets: Cluster) -> None:
    said = widgets.post(CONFIG_MAPS, config_map("a", {"x": "1\n2\n", "on": "0x1f"})).ok()
    assert read(widgets.get(f"{CONFIG_MAPS}/a", Accept=YAML)) == said
    assert read(widgets.get(CONFIG_MAPS, Accept=YAML)) == widgets.get(CONFIG_MAPS).ok()
    made = read(widgets.post(WIDGETS, widget("w"), Accept=YAML), 201)
    assert made == widgets.get(f"{WIDGETS}/w").ok()
    assert read(widgets.get(WIDGETS, Accept=YAML))["items"] == [made]
    table = read(widgets.get(WIDGETS, Accept=YAML + ";as=Table;g=meta.k8s.io;v=v1"))
    assert (table["kind"], table["rows"][0]["cells"][0]) == ("Table", "w")


def test_failures(cluster: Cluster) -> None:
    status = read(cluster.get(f"{CONFIG_MAPS}/none", Accept=YAML), 404)
    assert (status["kind"], status["reason"], status["code"]) == ("Status", "NotFound", 404)


def test_there_is_no_watch_in_yaml(cluster: Cluster) -> None:
    status = read(cluster.get(f"{CONFIG_MAPS}?watch=1", Accept=YAML), 406)
    assert status["message"] == (
        "only the following media types are accepted: application/json;stream=watch, "
        "application/vnd.kubernetes.protobuf;stream=watch"
    )
    with cluster.watch(CONFIG_MAPS, Accept=f"{YAML},application/json") as watch:
        assert watch.answer.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    "text",
    ["1e3", "0o17", "0x1f", "y", "N", "on", "null", "~", "1_000", "2024-01-01", "12:30", "", " a", "<<", "=", ".5"],
)
def test_text_that_looks_like_something_else_stays_text(text: str) -> None:
    written = dump_yaml({"value": text}).decode()
    assert written in (f"value: '{text}'\n", f'value: "{text}"\n')
    assert strictyaml.loads(written.encode()) == {"value": text}


TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(TREES)
def test_what_is_written_is_read_back(value: object) -> None:
    assert strictyaml.loads(dump_yaml(value)) == value


def test_equal_values_are_written_twice() -> None:
    one = {"a": ["b"]}
    assert b"*" not in dump_yaml({"x": one, "y": one})


def test_bodies_are_read_as_go_reads_them() -> None:
    assert strictyaml.loads(b"b: n\na: y\n---\nc: [\n") == {"a": True, "b": False}
    assert list(strictyaml.loads(b"b: 1\na: 2\n")) == ["a", "b"]
    assert strictyaml.duplicate_key_errors(b"a: 1\na: 2\n") == ['line 2: key "a" already set in map']


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"a: [\n", "yaml: line 1: did not find expected node content"),
        (b"a:\n\t- b\n", "yaml: line 2: found character that cannot start any token"),
        (b"a: *b\n", "yaml: anchor 'b' value contains itself, or unknown anchor"),
        (b"a: .nan\n", "json: unsupported value: .nan"),
    ],
)
def test_what_is_no_yaml(text: bytes, said: str) -> None:
    with pytest.raises(BadRequest) as caught:
        strictyaml.loads(text)
    assert caught.value.message == said


@pytest.mark.parametrize(
    "value", [[{}] * 10_000, [[]] * 10_000, {str(key): {} for key in range(10_000)}, ["a"] * 10_000]
)
def test_no_step_is_long_whatever_the_values_are(value: object) -> None:
    """Empty mappings and sequences have no scalars in them."""
    assert sum(1 for _ in YAMLEncoder().steps(value)) > 100
