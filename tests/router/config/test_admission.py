from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from router.admission.gate import Gate
from router.admission.probabilistic import ProbabilisticAdmitter
from router.config.errors import ConfigError
from router.config.load import Config, load
from router.scheduling.filters.concurrency_detector import ConcurrencyDetector
from router.scheduling.filters.utilization_detector import UtilizationDetector

HEAD = {"apiVersion": "llm-d.ai/v1alpha1", "kind": "EndpointPickerConfig"}
QUEUE = {"type": "queue-scorer"}
PROFILE = [{"name": "default", "plugins": [{"pluginRef": "queue-scorer"}]}]


def config(*plugins: dict[str, Any], **fields: Any) -> Config:
    given = HEAD | {"plugins": [QUEUE, *plugins], "schedulingProfiles": PROFILE} | fields
    return load(msgspec.json.encode(given).decode())


def detector(ref: str) -> dict[str, Any]:
    return {"saturationDetector": {"pluginRef": ref}}


def test_the_detector_of_metrics_counts_where_none_is_named() -> None:
    built = config()
    assert built.admission.admitters == (Gate(UtilizationDetector()),)
    assert built.warnings == ()


def test_a_declared_detector_of_that_name_counts_with_its_parameters() -> None:
    declared = {"type": "utilization-detector", "parameters": {"queueDepthThreshold": 9}}
    built = config(declared)
    assert built.admission.detector.value == UtilizationDetector(queue_depth_threshold=9)
    assert built.warnings == ()


def test_a_detector_is_named_by_its_name_or_its_type() -> None:
    declared = {"type": "concurrency-detector", "name": "mine"}
    built = config(declared, flowControl=detector("mine"))
    assert built.admission.detector.value == ConcurrencyDetector()
    built = config(flowControl=detector("concurrency-detector"))
    assert built.admission.detector.value == ConcurrencyDetector()


def test_the_counts_that_a_detector_reads_are_made() -> None:
    built = config(flowControl=detector("concurrency-detector"))
    assert [p.type for p in built.producers] == ["inflight-load-producer"]


def test_a_detector_may_stand_in_its_older_place() -> None:
    built = config(**detector("concurrency-detector"))
    assert built.admission.detector.type == "concurrency-detector"


def test_admitters_are_asked_in_the_order_of_the_file() -> None:
    first = {"type": "probabilistic-admitter", "name": "first", "parameters": {"k": 1}}
    built = config(first, {"type": "probabilistic-admitter"})
    assert built.admission.admitters == (
        Gate(UtilizationDetector()),
        ProbabilisticAdmitter(k=1.0),
        ProbabilisticAdmitter(),
    )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"flowControl": detector("utilisation-detector")},
            "'utilisation-detector' is no saturation detector; did you mean"
            " 'utilization-detector'? - at `$.flowControl.saturationDetector.pluginRef`",
        ),
        (
            {"flowControl": detector("queue-scorer")},
            "'queue-scorer' is no saturation detector",
        ),
        (detector("x"), "at `$.saturationDetector.pluginRef`"),
    ],
)
def test_a_reference_to_something_else_is_fatal(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        config(**fields)


def test_a_detector_that_nobody_asks_is_warned_of() -> None:
    (warning,) = config({"type": "concurrency-detector"}).warnings
    assert "'concurrency-detector' is in no profile" in warning
