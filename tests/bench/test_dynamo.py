"""The comparison in its smallest size; without Dynamo our side plays both."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench import dynamo
from bench.dynamo import DYNAMO, OURS, Both, Load, Size
from bench.peers.child import Command, SideFailed, started
from bench.peers.engine import BLOCK_SIZE, LAST, Traffic, traffic
from bench.peers.side import Called, Grown

SMALL = Size(
    tokens=(1024, 2048),
    block_sizes=(16, 64),
    endpoints=(2, 3),
    calls=1,
    batches=2,
    loads=(Load(1, 20), Load(16, 20)),
    runs=1,
    memory_blocks=5000,
    memory_holders=(1, 2),
    known=4,
)


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def events(payloads: list[bytes]) -> list[Any]:
    return [msgspec.msgpack.decode(payload)[1][0] for payload in payloads]


def sequences(published: Traffic) -> list[Any]:
    return events(list(published.stores))


# -- figures ------------------------------------------------------------------------------------


def test_every_prompt_event_size_and_number_of_holders_has_its_ratio() -> None:
    figures = dynamo.figures(SMALL, theirs=OURS)
    assert [figure.name for figure in figures] == [
        *(
            f"hash + match {tokens}k tokens, block {block}, {endpoints} endpoints"
            for block in (16, 64)
            for endpoints in (2, 3)
            for tokens in (1, 2)
        ),
        "store over ZMQ, blocks an event: 1",
        "remove over ZMQ, blocks an event: 1",
        "store over ZMQ, blocks an event: 16",
        "remove over ZMQ, blocks an event: 16",
        "memory per block, holders: 1",
        "memory per block, holders: 2",
    ]
    assert {figure.unit for figure in figures} == {"x"}
    assert all(figure.value > 0 for figure in figures)
    assert [f.name for f in figures if f.budget] == ["store over ZMQ, blocks an event: 1"]


def test_the_long_prompt_is_to_be_ahead() -> None:
    size = msgspec.structs.replace(
        SMALL,
        tokens=(128 * 1024,),
        block_sizes=(16,),
        endpoints=(64,),
        batches=1,
        loads=(),
        memory_holders=(),
    )
    (figure,) = dynamo.figures(size, theirs=OURS)
    assert figure.budget == 1


@pytest.mark.skipif(not DYNAMO.python.exists(), reason="Dynamo is not installed: `make peers`")
def test_dynamo_holds_and_loses_the_same_blocks() -> None:
    assert len(dynamo.figures(SMALL)) == 14


def test_a_missing_interpreter_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = Command(tmp_path / "python", "bench.peers.dynamo_side")
    assert dynamo.figures(SMALL, theirs=missing) == []
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert f"no {missing.python}" in said
    assert "make peers" in said


def test_a_ratio_is_ours_over_theirs_by_their_medians() -> None:
    both = dynamo.medians([[1.0, 5.0], [90.0, 4.0], [2.0, 70.0]], float)
    assert both == Both(2.0, 5.0)
    assert both.ratio == 0.4
    assert both.told("us") == "2 us, Dynamo 5 us"


# -- sides --------------------------------------------------------------------------------------


def test_blocks_that_got_lost_are_no_measurement() -> None:
    published = traffic(1, 4)
    more = msgspec.structs.replace(published, blocks=published.blocks + 1)
    with pytest.raises(RuntimeError, match="held 5 of 6 blocks"):
        dynamo.run(OURS, more)


def test_removals_that_leave_blocks_are_no_measurement() -> None:
    published = traffic(1, 4)
    fewer = msgspec.structs.replace(published, removals=published.removals[1:])
    with pytest.raises(RuntimeError, match="kept 1 that"):
        dynamo.run(OURS, fewer)


def test_a_side_whose_endpoints_hold_something_else_fails_and_is_gone(
    capfd: pytest.CaptureFixture[str],
) -> None:
    before = children()
    with started(OURS) as side:
        side.do("index", block_size=16, known=0)
        side.do("hold", tokens=64, first=0, end=2)
        with pytest.raises(SideFailed, match="warmroute_side ended"):
            side.ask(Called, "match", tokens=64, calls=1, reach=[4, 4, 4])
    assert "the endpoints reach [4, 4], not [4, 4, 4]" in capfd.readouterr().err
    assert children() == before


def test_a_side_that_does_not_start_is_an_error() -> None:
    nobody = Command(Path(sys.executable), "bench.peers.nobody")
    with started(nobody) as side, pytest.raises(SideFailed, match="exit code 1"):
        side.ask(Called, "match")


def test_a_call_costs_cpu_time_and_the_caller_waits() -> None:
    with started(OURS) as side:
        side.do("index", block_size=16, known=0)
        side.do("hold", tokens=4096, first=0, end=1)
        short = side.ask(Called, "match", tokens=64, calls=9, reach=[4])
        long = side.ask(Called, "match", tokens=4096, calls=9, reach=[256])
    assert 0 < short.wall_us < long.wall_us
    assert 0 < short.cpu_us < long.cpu_us


def test_memory_grows_with_what_is_held() -> None:
    with started(OURS) as side:
        few, many = (
            side.ask(Grown, "grow", blocks=blocks, block_size=16, first=1, end=2).bytes
            for blocks in (1000, 100_000)
        )
    assert 0 <= few < many


# -- what the engine publishes ------------------------------------------------------------------


def test_sequences_start_at_the_root_and_go_on_from_the_event_before() -> None:
    stored = sequences(traffic(2, 10))
    parents = [event["parent_block_hash"] for event in stored]
    assert parents[0] is parents[8] is parents[10] is None
    assert parents[1:8] == [event["block_hashes"][-1] for event in stored[:7]]
    assert all(len(event["token_ids"]) == 2 * BLOCK_SIZE for event in stored[:10])


def test_the_block_that_tells_the_end_is_like_no_other() -> None:
    published = traffic(3, 5)
    *others, last = sequences(published)
    assert last["token_ids"] == list(LAST)
    assert all(not set(LAST) & set(event["token_ids"]) for event in others)
    assert events(list(published.removals))[-1]["block_hashes"] == last["block_hashes"]


def test_all_that_was_stored_is_removed_from_the_ends_of_sequences() -> None:
    published = traffic(3, 10)
    stored = [name for event in sequences(published) for name in event["block_hashes"]]
    removed = [n for e in events(list(published.removals)) for n in e["block_hashes"]]
    assert published.blocks == len(stored) == 31
    assert removed == [*stored[-2::-1], stored[-1]]
