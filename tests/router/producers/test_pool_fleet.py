from __future__ import annotations

from indexer.block import Holder, Identity
from indexer.events import BlockStored
from indexer.feed import Source
from indexer.hashing import pack
from indexer.prefix_index import PrefixIndex
from router.config.motor_schema import MediaPorts, Motor
from router.pool.endpoint import KvEvents, ServedModels
from router.pool.pool import Pool
from router.producers.pool_fleet import PoolFleet
from tests.support import make

MOTOR = Motor(
    model="/models/qwen",
    engine_type="vLLM",
    block_size=16,
    media=MediaPorts(),
    port=13333,
    look_again_s=0,
)
A = "10.0.0.1:8000"


def fleet(*endpoints: object) -> tuple[PoolFleet, Pool, PrefixIndex]:
    pool, index = Pool(), PrefixIndex(16, pools=True)
    pool.replace(endpoints)  # type: ignore[arg-type]
    return PoolFleet(pool, index, MOTOR), pool, index


def test_a_rank_is_named_by_its_endpoint_s_name_or_its_own_number() -> None:
    events = tuple(KvEvents(endpoint=f"tcp://10.0.0.3:{5557 + r}", rank=r) for r in range(2))
    found, pool, _ = fleet(
        make.endpoint(A, name="pod-rank-0"),
        make.endpoint("10.0.0.1:8001", name="pod-rank-1", rank=1),
        make.endpoint("10.0.0.3:8000", name="other", kv_events=events),
    )
    pool.served(A, ServedModels(names=("qwen",)))
    known = found.known("default", "qwen")
    assert known is not None
    assert known.names == {
        Holder(A): ("pod", 0),
        Holder("10.0.0.1:8001", 1): ("pod", 1),
        Holder("10.0.0.3:8000", 0): ("other", 0),
        Holder("10.0.0.3:8000", 1): ("other", 1),
    }
    told = {worker["instance_id"]: list(worker["endpoints"]) for worker in found.instances()}
    assert told == {"pod": ["0", "1"], "other": ["0", "1"]}


def test_all_names_of_a_served_model_are_its_own() -> None:
    found, pool, _ = fleet(make.endpoint(A))
    pool.served(A, ServedModels(names=("qwen", "alias"), adapters={"sql": "qwen"}))
    known = found.known("default", "alias")
    assert known is not None
    assert set(known.identities) == {Identity("qwen"), Identity("alias")}
    adapter = found.known("default", "sql")
    assert adapter is not None
    assert {identity.lora for identity in adapter.identities} == {"sql"}


def test_the_path_of_the_configuration_means_what_is_heard() -> None:
    found, _, index = fleet(make.endpoint(A))
    feed = index.open(Source(Holder(A), "tcp://10.0.0.1:5557", base_model="qwen"))
    feed.models.add("qwen")
    known = found.known("default", MOTOR.model)
    assert known is not None
    assert Identity("qwen") in known.identities
    assert found.known("default", "qwen") is not None


def test_other_tenants_and_models_are_unknown() -> None:
    found, pool, _ = fleet(make.endpoint(A))
    pool.served(A, ServedModels(names=("qwen",)))
    assert found.known("acme", "qwen") is None
    assert found.known("default", "other") is None


def test_workers_tell_what_an_endpoint_holds_and_sends() -> None:
    found, pool, index = fleet(make.endpoint(A, name="pod"))
    pool.served(A, ServedModels(names=("qwen",)))
    index.open(Source(Holder(A), "tcp://10.0.0.1:5557", replay="tcp://10.0.0.1:5657"))
    event = BlockStored([1], None, pack(range(32)), 32)
    index.ledger(Holder(A)).apply(event, "qwen")
    (worker,) = found.instances()
    assert (worker["model_name"], worker["block_size"]) == ("qwen", 16)
    rank = worker["endpoints"]["0"]
    assert rank["medium_endpoints"] == {"npu": "tcp://10.0.0.1:5557"}
    assert (rank["replay_endpoint"], rank["sent_block_size"]) == ("tcp://10.0.0.1:5657", 32)
    assert rank["blocks"] == {"gpu": 2}
