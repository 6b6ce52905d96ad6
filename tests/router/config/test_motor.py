"""Motor's file: what it is translated to, and whom its users' usual settings pick."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from router.config.errors import ConfigError
from router.config.load import Config, load
from router.config.motor import is_motor
from router.pool.endpoint import ROLE_LABEL, Endpoint
from router.producers.facts import Facts, HeldPrefix, InFlight, PrefixMatch, Tokens
from tests.support import make
from tests.support.markdown import ROOT

GOLDEN = sorted((ROOT / "tests" / "golden" / "motor").glob("*.json"))


def told(**parts: Any) -> dict[str, Any]:
    """A file; `conductor`, `affinity` and roles of engines are parts of it."""
    scheduler = {
        "scheduler_type": "kv_cache_affinity",
        "kv_affinity": parts.pop("affinity", {}),
        **parts.pop("scheduler", {}),
    }
    conductor = parts.pop("conductor", {})
    engines = {f"motor_engine_{role}_config": section for role, section in parts.items()}
    return {
        "version": "v2.0",
        "motor_coordinator_config": {"scheduler_config": scheduler},
        "kv_conductor_config": conductor,
        **engines,
    }


def engine(**events: Any) -> dict[str, Any]:
    flags = {"kv-events-config": {"publisher": "zmq", "endpoint": "tcp://*:5557", **events}}
    return {"engine_type": "vllm", "enable_multi_endpoints": True, "engine_config": flags}


def loaded(**parts: Any) -> Config:
    parts = parts or {"union": engine()}
    return load(json.dumps(told(**parts)))


def notes(config: Config) -> list[str]:
    return [f"{note.kind}: {note}" for note in config.notes]


def parameters(config: Config, name: str) -> Any:
    return config.plugins[name].parameters


def picked(
    config: Config, prompt: int, fleet: Mapping[str, Mapping[str, int]], **roles: str
) -> list[str]:
    """Where a prompt goes; `fleet` tells the load of each and the blocks it holds."""
    block_size = parameters(config, "precise-prefix-cache-producer").token_processor_config.tokens
    facts = Facts(random.Random(0))
    held = {}
    for name, figures in fleet.items():
        media = (("gpu", "npu"), ("cpu", "cpu"), ("disk", "disk"))
        tiers = {tier: figures[key] for tier, key in media if figures.get(key)}
        blocks = sum(tiers.values())
        held[name] = HeldPrefix(blocks, tiers, blocks, float(blocks))
    facts.put(Tokens(bytes(4 * prompt)), "token-producer")
    match = PrefixMatch(prompt // block_size, block_size, held)
    facts.put(match, "precise-prefix-cache-producer")
    loads = {name: figures.get("load", 0) for name, figures in fleet.items()}
    facts.put(InFlight({}, loads), "inflight-load-producer")
    endpoints = [
        make.endpoint(name, labels={ROLE_LABEL: roles[name]} if name in roles else {})
        for name in fleet
    ]
    return sorted(_decided(config, endpoints, facts))


def _decided(config: Config, endpoints: list[Endpoint], facts: Facts) -> set[str]:
    request = make.request()
    decision = config.handler.decide(request, config.profiles, endpoints, facts, random.Random(1))
    prefill = decision.prefill
    return {decision.endpoint.address} | ({prefill.endpoint.address} if prefill else set())


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_the_usual_settings_pick_as_their_users_expect(path: Path) -> None:
    golden = json.loads(path.read_text())
    config = load(json.dumps(golden["user_config"]))
    assert config.motor is not None
    assert config.motor.block_size == golden["block_size"]
    for case in golden["cases"]:
        assert picked(config, case["prompt"], case["fleet"]) == case["pick"], case["why"]


def test_every_golden_setting_is_there() -> None:
    names = {path.stem for path in GOLDEN}
    assert names == {"pure_affinity", "balance_first", "conservative", "deepseek_v4"}


@pytest.mark.parametrize(
    ("data", "is_one"),
    [
        (told(), True),
        ({"kv_conductor_config": {}}, True),
        ({"motor_engine_union_config": {}}, True),
        ({"apiVersion": "v1", "kind": "EndpointPickerConfig", "motor_x": 1}, False),
        ({"plugins": []}, False),
        ([], False),
    ],
)
def test_the_content_tells_the_dialect(data: object, is_one: bool) -> None:
    assert is_motor(data) is is_one


def test_each_key_of_kv_affinity_is_a_parameter() -> None:
    affinity = {
        "load_weight": 0.5,
        "overlap_credit": 0.6,
        "prefill_load_scale": 0.7,
        "w_npu": 0.8,
        "w_cpu": 0.9,
        "w_disk": 0.1,
        "hit_rate_threshold": 0.2,
    }
    scorer = parameters(loaded(union=engine(), affinity=affinity), "kv-affinity-scorer")
    assert {key: getattr(scorer, key) for key in affinity} == affinity
    gated = loaded(union=engine(), affinity={"mode": "load_gated", "load_gate_topn": 7})
    assert parameters(gated, "load-gate-filter").top_n == 7
    assert parameters(gated, "kv-affinity-scorer").mode == "load_gated"
    assert "load-gate-filter" not in loaded().plugins


def test_ports_are_counted_by_rank() -> None:
    conductor = {"npu_endpoint": "tcp://*:7000", "replay_endpoint": "tcp://*:7100"}
    config = loaded(union=engine(endpoint="tcp://*:7000"), conductor=conductor)
    ports = parameters(config, "precise-prefix-cache-producer").kv_events_config
    assert ports.pod_discovery_config.socket_port == 7000
    assert ports.pod_discovery_config.replay_socket_port == 7100
    assert config.notified == {"precise-prefix-cache-producer"}


@pytest.mark.parametrize(
    ("conductor", "port"),
    [
        ({"npu_endpoint": "tcp://*:1001", "endpoint": "tcp://*:1002"}, 1001),
        ({"endpoint": "tcp://*:1002"}, 1002),
        ({}, 1003),
    ],
)
def test_the_conductor_s_word_on_events_counts_before_the_engine_s(
    conductor: dict[str, str], port: int
) -> None:
    config = loaded(union=engine(endpoint="tcp://*:1003"), conductor=conductor)
    events = parameters(config, "precise-prefix-cache-producer").kv_events_config
    assert events.pod_discovery_config.socket_port == port
    finding = any("which counts" in warning for warning in config.warnings)
    assert finding is (port != 1003)


def test_without_any_address_events_are_where_vllm_s_are() -> None:
    config = loaded(union={"engine_type": "vllm"})
    events = parameters(config, "precise-prefix-cache-producer").kv_events_config
    assert events.pod_discovery_config.socket_port == 5557
    assert any("tcp://*:5557: no address of events is told" in note for note in notes(config))


@pytest.mark.parametrize(
    ("conductor", "flags", "size"),
    [
        ({}, {}, 128),
        ({"block_size": 64}, {}, 64),
        ({"model_path": "/models/DeepSeek-V4-Flash"}, {}, 512),
        ({}, {"model": "deepseek_v4"}, 512),
        ({"model_path": "/models/DeepSeek-V3"}, {}, 128),
        ({"block_size": 128}, {"decode-context-parallel-size": 4}, 512),
        ({"block_size": 256, "model_path": "deepseek-v4"}, {}, 256),
    ],
)
def test_the_block_size_is_told_or_the_model_s(
    conductor: dict[str, Any], flags: dict[str, Any], size: int
) -> None:
    union = engine()
    union["engine_config"].update(flags)
    config = loaded(union=union, conductor=conductor)
    assert config.motor is not None
    assert config.motor.block_size == size
    index = parameters(config, "precise-prefix-cache-producer").token_processor_config
    assert index.tokens == size


def test_the_inner_conductor_section_counts_before_the_outer() -> None:
    inner = {"kv_conductor_config": {"http_server_port": 2000, "engine_type": "SGLang"}}
    outer = {"http_server_port": 3000, "block_size": 16}
    config = loaded(union=engine(), conductor=outer, scheduler=inner)
    assert config.motor is not None
    assert (config.motor.port, config.motor.block_size) == (2000, 16)
    assert config.motor.engine_type == "SGLang"
    assert any("$.kv_conductor_config.http_server_port" in note for note in notes(config))


def test_pools_and_ports_of_lower_tiers_are_taken_by_backend() -> None:
    told_of = {"pool_endpoint": "tcp://pool:5600", "cpu_endpoint": "tcp://*:1", "disk_endpoint": ""}
    pooled = loaded(union=engine(), conductor=told_of)
    assert pooled.motor is not None
    media = pooled.motor.media
    assert (media.pool, media.cpu, media.backend) == ("tcp://pool:5600", None, "mooncake")
    assert any("cpu_endpoint is not for the store_backend" in w for w in pooled.warnings)
    own = loaded(union=engine(), conductor={**told_of, "store_backend": "YuanRong"})
    assert own.motor is not None
    assert (own.motor.media.pool, own.motor.media.cpu, own.motor.media.disk) == (None, 1, None)
    assert any("pool_endpoint is not for the store_backend" in w for w in own.warnings)


def test_prefill_and_decode_apart_are_two_picks() -> None:
    config = loaded(prefill=engine(), decode=engine())
    assert set(config.profiles) == {"prefill", "decode"}
    roles = {"p": "prefill", "q": "prefill", "d": "decode", "e": "decode"}
    fleet = {"p": {"npu": 5}, "q": {}, "d": {"load": 10, "npu": 9}, "e": {}}
    # Prefill goes by what is held, decode by load alone.
    assert picked(config, 1280, fleet, **roles) == ["e", "p"]
    single = loaded(prefill=engine(), decode=engine(), scheduler={"deploy_mode": "single_node"})
    assert set(single.profiles) == {"default"}


def test_another_scheduler_type_balances_by_load() -> None:
    config = loaded(union=engine(), scheduler={"scheduler_type": "load_balance"})
    assert picked(config, 1280, {"a": {"npu": 10, "load": 1}, "b": {}}) == ["b"]
    assert any("balanced by load" in warning for warning in config.warnings)


def test_what_is_needed_and_right_warns_of_nothing() -> None:
    conductor = {"npu_endpoint": "tcp://*:5557", "pool_endpoint": "tcp://10.0.0.9:5600"}
    assert loaded(union=engine(topic="kv-events"), conductor=conductor).warnings == ()


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"affinity": {"w_dsk": 1}}, "did you mean 'w_disk'?"),
        ({"conductor": {"blocksize": 1}}, "did you mean 'block_size'?"),
        ({"union": engine(publisher="null")}, "engines publish no events"),
        ({"union": engine(enable_kv_cache_events=False)}, "engines publish no events"),
        ({"union": {"engine_type": "vllm"}}, "no kv-events-config"),
        ({"union": {**engine(), "engine_type": "mindie"}}, "in the form of vLLM's"),
        ({"union": engine(replay_endpoint="tcp://*:1"),
          "conductor": {"replay_endpoint": "tcp://*:2"}}, "engines use tcp://*:1"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_a_warning(parts: dict[str, Any], said: str) -> None:
    warnings = loaded(**{"union": engine(), **parts}).warnings
    assert [warning for warning in warnings if said in warning]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"conductor": {"conductor_service": "kv-conductor"}}, "the index is in this process"),
        ({}, "enable_multi_endpoints"),
        ({}, "no pool_endpoint"),
        ({"affinity": {"load_gate_topn": 3}}, "load_gate_topn is for the other mode"),
        ({"affinity": {"mode": "load_gated", "load_weight": 1}}, "load_weight is for the other"),
    ],
)
def test_what_has_no_effect_is_told_with_its_reason(parts: dict[str, Any], said: str) -> None:
    told = notes(loaded(**{"union": engine(), **parts}))
    assert [note for note in told if said in note and note.startswith("no effect")]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"affinity": {"mode": "best"}}, "scheduler_config.kv_affinity.mode`"),
        ({"affinity": {"w_cpu": -1}}, "scheduler_config.kv_affinity.w_cpu`"),
        ({"affinity": []}, "expected an object - at `$.motor_coordinator_config"),
        ({"conductor": {"http_server_port": 80}}, "`$.kv_conductor_config.http_server_port`"),
        ({"conductor": {"block_size": 0}}, "`$.kv_conductor_config.block_size`"),
        (
            {"conductor": {"npu_endpoint": "tcp://10.0.0.1:5557"}},
            "kv_conductor_config.npu_endpoint",
        ),
        ({"conductor": {"npu_endpoint": "tcp://*:70000"}}, "70000 is no port"),
        ({"union": engine(endpoint=5557)}, "kv-events-config.endpoint`"),
        ({"union": {"engine_config": {"kv-events-config": "{"}}}, "no JSON"),
        ({"union": {"engine_config": {"kv-events-config": 7}}}, "expected an object"),
    ],
)
def test_a_mistake_names_its_place(parts: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(**{"union": engine(), **parts})
    assert said in str(caught.value)


def test_events_may_be_told_as_on_a_command_line() -> None:
    text = json.dumps({"publisher": "zmq", "endpoint": "tcp://*:7000"})
    config = loaded(union={"engine_config": {"kv-events-config": text}})
    events = parameters(config, "precise-prefix-cache-producer").kv_events_config
    assert events.pod_discovery_config.socket_port == 7000


def test_null_is_as_good_as_nothing() -> None:
    config = loaded(union=engine(), conductor={"block_size": None, "pool_endpoint": None})
    assert config.motor is not None
    assert config.motor.block_size == 128


def test_the_rest_of_the_file_is_read_past() -> None:
    data = told(union=engine())
    data["motor_deploy_config"] = {"anything": [1, {"x": None}]}
    data["motor_coordinator_config"]["http_config"] = {"port": "x"}
    assert load(json.dumps(data)).motor is not None


@pytest.mark.parametrize(
    ("path", "key", "meant"),
    [
        ((), "kv_conducter_config", "kv_conductor_config"),
        ((), "motor_engine_unoin_config", "motor_engine_union_config"),
        (("motor_coordinator_config",), "sheduler_config", "scheduler_config"),
        (("motor_coordinator_config", "scheduler_config"), "scheduler_types", "scheduler_type"),
        (("motor_coordinator_config", "scheduler_config"), "kv_afinity", "kv_affinity"),
        (("motor_engine_union_config",), "engine_confg", "engine_config"),
    ],
)
def test_a_section_that_is_probably_misspelled_is_warned_of(
    path: tuple[str, ...], key: str, meant: str
) -> None:
    data = told(union=engine())
    section = data
    for name in path:
        section = section[name]
    section[key] = section.pop(meant)
    said = f"'{key}' is read past; did you mean '{meant}'? - at `{'.'.join(('$', *path, key))}`"
    assert said in load(json.dumps(data)).warnings


@pytest.mark.parametrize("key", ["motor_controller_config", "motor_engine_encode_config", "north"])
def test_other_sections_are_no_misspelled_ones(key: str) -> None:
    data = told(union=engine(), prefill=engine(), decode=engine())
    before = load(json.dumps(data)).warnings
    assert load(json.dumps({**data, key: {}})).warnings == before


def test_notes_come_in_the_order_of_the_file() -> None:
    keys = ["npu_endpoint", "replay_endpoint", "endpoint", "cpu_endpoint", "disk_endpoint"]
    outer = {key: f"tcp://*:{port}" for port, key in enumerate(keys, 1)}
    inner = {key: f"tcp://*:{port}" for port, key in enumerate(reversed(keys), 11)}
    config = loaded(union=engine(), conductor=outer, scheduler={"kv_conductor_config": inner})
    said = [note.path for note in config.notes if "too, and that counts" in note.text]
    assert said == [f"$.kv_conductor_config.{key}" for key in keys]
