"""What the Gateway API's conformance tests ask of an endpoint picker, through real Envoy."""

from __future__ import annotations

from pathlib import Path

from tests.end_to_end.test_fallbacks import fallback_fleet

CONFIG = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
  - {type: header-based-testing-filter}
  - {type: destination-endpoint-served-verifier}
schedulingProfiles:
  - {name: default, plugins: [{pluginRef: header-based-testing-filter}]}
"""


async def test_a_request_goes_where_its_header_says_and_the_answer_tells(tmp_path: Path) -> None:
    async with fallback_fleet(tmp_path, alive=3, dead=0, config=CONFIG) as (fleet, engines):
        for i, address in enumerate(fleet.engines):
            for text in (address, address.partition(":")[0]):
                for method in ("GET", "POST"):
                    async with fleet.session.request(
                        method, f"{fleet.url}/x", headers={"test-epp-endpoint-selection": text}
                    ) as response:
                        assert response.status == 200
                        served = response.headers["x-conformance-test-served-endpoint"]
                        told = dict((await response.json())["headers"])
                    assert served == told["x-gateway-destination-endpoint"] == address
                    assert "test-epp-endpoint-selection" not in told
            assert len(engines[i].requests) == 4
        outside = {"test-epp-endpoint-selection": "192.0.2.1"}
        async with fleet.session.get(f"{fleet.url}/x", headers=outside) as response:
            assert response.status == 503
