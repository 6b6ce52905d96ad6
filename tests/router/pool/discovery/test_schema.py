"""The endpoints file has the keys it has, and no others."""

from __future__ import annotations

import msgspec
import pytest

from router.pool.discovery.schema import (
    EndpointsFile,
    KvEventsEntry,
    ModelMatch,
    ModelName,
    ModelRewrite,
    RewriteTarget,
)

ENDPOINT = {"name": "a", "address": "10.0.0.1", "port": "8000"}


def convert(**keys: object) -> EndpointsFile:
    return msgspec.convert({"endpoints": [], **keys}, EndpointsFile)


def test_a_file_with_every_key_is_read() -> None:
    file = convert(
        endpoints=[{**ENDPOINT, "kvEvents": {"endpoint": "tcp://10.0.0.1:5557"}}],
        objectives={"batch": -1},
        modelRewrites=[
            {
                "matches": [{"model": {"type": "Exact", "value": "a"}}, {"model": {"value": "b"}}],
                "targets": [{"modelRewrite": "c", "weight": 3}, {"modelRewrite": "d"}],
            }
        ],
    )
    assert file.endpoints[0].kv_events == KvEventsEntry(endpoint="tcp://10.0.0.1:5557")
    assert file.objectives == {"batch": -1}
    assert file.model_rewrites == (
        ModelRewrite(
            matches=(
                ModelMatch(model=ModelName(value="a")),
                ModelMatch(model=ModelName(value="b")),
            ),
            targets=(
                RewriteTarget(model_rewrite="c", weight=3),
                RewriteTarget(model_rewrite="d"),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ({"endpoint": []}, "unknown field `endpoint`"),
        ({"endpoints": [{**ENDPOINT, "prot": 1}]}, "$.endpoints[0]"),
        ({"endpoints": [{"name": "a", "address": "10.0.0.1"}]}, "field `port`"),
        ({"endpoints": [{**ENDPOINT, "name": ""}]}, "$.endpoints[0].name"),
        ({"endpoints": [{**ENDPOINT, "labels": {"a": True}}]}, "$.endpoints[0].labels[...]"),
        ({"endpoints": [{**ENDPOINT, "rank": -1}]}, "$.endpoints[0].rank"),
        (
            {"endpoints": [{**ENDPOINT, "kvEvents": {"endpoint": "tcp://*:5557"}}]},
            "$.endpoints[0].kvEvents.endpoint",
        ),
        (
            {"endpoints": [{**ENDPOINT, "kvEvents": [{"endpoint": "10.0.0.1:5557"}]}]},
            "$.endpoints[0].kvEvents[0].endpoint",
        ),
        ({"objectives": {"a": 2**31}}, "$.objectives[...]"),
        ({"modelRewrites": [{"targets": []}]}, "$.modelRewrites[0].targets"),
        (
            {"modelRewrites": [{"targets": [{"modelRewrite": "a", "weight": 0}]}]},
            "$.modelRewrites[0].targets[0].weight",
        ),
        (
            {
                "modelRewrites": [
                    {
                        "matches": [{"model": {"type": "Regex", "value": "a"}}],
                        "targets": [{"modelRewrite": "a"}],
                    }
                ]
            },
            "$.modelRewrites[0].matches[0].model.type",
        ),
    ],
)
def test_a_mistake_is_refused_with_its_place(keys: dict[str, object], place: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        convert(**keys)
    assert place in str(caught.value)
