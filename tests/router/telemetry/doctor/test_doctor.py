from __future__ import annotations

import msgspec

from router.telemetry.doctor.doctor import CHECKS, LAST
from router.telemetry.metrics import Metrics
from tests.router.producers.test_prefix import A, B, stored
from tests.router.telemetry.doctor.ward import Ward


def test_where_nothing_is_wrong_nothing_is_found() -> None:
    ward = Ward()
    ward.wait(1000)
    assert ward.doctor.describe() == {"at": 2000.0, "findings": []}


def test_findings_are_json_with_evidence_and_a_fix() -> None:
    ward = Ward()
    ward.fixture.announce(A, stored([1], range(24), block_size=24))
    told = msgspec.json.decode(msgspec.json.encode(ward.doctor.describe()))
    (finding,) = told["findings"]
    assert set(finding) == {"code", "about", "what", "evidence", "fix"}
    assert all(finding.values())


def test_each_check_says_in_a_sentence_what_it_looks_for() -> None:
    assert [check for check in (*CHECKS, *LAST) if not (check.__doc__ or "").endswith(".")] == []


async def test_a_symptom_is_not_told_where_its_cause_is() -> None:
    ward = Ward()
    for address in (A, B):
        for _ in range(2):
            (await ward.fixture.send(address)).responded(200)
    ward.fixture.announce(A, stored([1], range(24), block_size=24))
    ward.fixture.announce(B, stored([1], range(500, 516)))
    ward.fixture.now += 100
    await ward.fixture.facts()
    assert ward.codes() == [("block-size-differs", A), ("speculation-unconfirmed", B)]


def test_findings_and_predictions_are_metrics() -> None:
    ward = Ward()
    metrics = Metrics(lambda _: True)
    metrics.watch(ward.doctor.samples)
    for address in (A, B):
        ward.fixture.announce(address, stored([1], range(24), block_size=24))
    ward.answered(predicted_cached_tokens=48)
    value = metrics.registry.get_sample_value
    assert value("warmroute_findings", {"code": "block-size-differs"}) == 2
    endpoint = {"model_server_endpoint": A}
    assert value("warmroute_endpoint_prompt_tokens_total", endpoint) == 70
    assert value("warmroute_endpoint_predicted_cached_tokens_total", endpoint) == 48
