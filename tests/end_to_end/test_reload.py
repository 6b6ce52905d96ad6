"""A configuration that changes while requests go on, through real Envoy."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.end_to_end.conftest import running_fleet
from tests.end_to_end.test_chats import ask, client_of, prose
from tests.support.processes import Fleet, until

HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"

COUNTED = f"""{HEAD}
plugins:
  - type: active-request-scorer
  - type: max-score-picker
"""
WITH_QUEUE = f"{COUNTED}  - type: queue-scorer\n"
BROKEN = f"{COUNTED}  - type: que-scorer\n"


async def degraded(fleet: Fleet) -> list[str]:
    found: list[str] = (await fleet.get("/readyz"))["degraded"]
    return found


async def test_a_good_file_counts_from_the_next_request_and_a_bad_one_changes_nothing(
    tmp_path: Path,
) -> None:
    config = tmp_path / "epp.yaml"
    config.write_text(COUNTED)
    flags = ("--config-file", str(config))
    async with (
        running_fleet(
            tmp_path, engines=2, engine_flags=("--decode-s-per-token=0.1",), router_flags=flags
        ) as fleet,
        client_of(fleet) as client,
        asyncio.TaskGroup() as group,
    ):
        slow = group.create_task(
            client.completions.create(model="tiny", prompt=prose(1, 20), max_tokens=100)
        )
        await until(lambda: fleet.metric("warmroute_inflight_requests"))

        config.write_text(BROKEN)
        await until(lambda: fleet.metric("warmroute_config_reloads_total", result="failed"))
        (fault,) = await degraded(fleet)
        assert "did you mean 'queue-scorer'? - at `$.plugins[2].type`, line 7" in fault
        await ask(client, [{"role": "user", "content": "still here"}])

        config.write_text(WITH_QUEUE)
        await until(lambda: fleet.metric("warmroute_config_reloads_total", result="done"))
        assert await degraded(fleet) == []
        # What is in flight was not forgotten: the next ones go to the other engine.
        busy = fleet_busy(await fleet.get("/debug/state"))
        for _ in range(3):
            await ask(client, [{"role": "user", "content": "where"}])
        last = (await fleet.get("/debug/decisions?limit=1"))["decisions"][0]
        assert not slow.done()
        assert last["endpoint"] not in busy
        assert set(last["scores"]) == {"active-request-scorer", "queue-scorer"}
    usage = slow.result().usage
    assert usage is not None
    assert usage.completion_tokens == 100


def fleet_busy(state: dict[str, list[dict[str, object]]]) -> set[object]:
    return {e["address"] for e in state["endpoints"] if e["in_flight"]}
