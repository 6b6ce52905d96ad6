"""An endpoint's labels name the kind of engine it is."""

from __future__ import annotations

import pytest

from router.pool.dialects import DIALECTS, Dialects

NEW, LEGACY = "llm-d.ai/engine-type", "inference.networking.k8s.io/engine-type"


@pytest.mark.parametrize(
    ("labels", "engine"),
    [
        ({}, "vllm"),
        ({NEW: "sglang"}, "sglang"),
        ({LEGACY: "trtllm-serve"}, "trtllm-serve"),
        ({LEGACY: "triton", NEW: "sglang"}, "sglang"),
        ({NEW: "unheard-of"}, "vllm"),
    ],
    ids=["none", "label", "legacy label", "both labels", "unknown"],
)
def test_the_label_chooses_the_dialect_and_vllm_is_the_default(
    labels: dict[str, str], engine: str
) -> None:
    assert Dialects().of(labels) is DIALECTS[engine]
