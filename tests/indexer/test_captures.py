"""Recordings of a real engine: what the index predicts is what the engine reused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from indexer.block import Holder, Identity, Trust
from indexer.feed import Source
from indexer.hashing import pack
from indexer.prefix_index import PrefixIndex
from tests.indexer import make

ADDRESS = "127.0.0.1:8000"
RANKS = {"tcp://127.0.0.1:5557": 0, "tcp://127.0.0.1:5558": 1}


class Replayed:
    """An index that hears a recording step by step."""

    def __init__(self, name: str, block_size: int = 16) -> None:
        self.name = name
        self.index = PrefixIndex(block_size)
        self.frames: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for line in make.captured(name, "frames"):
            self.frames[line["step"]].append(line)
        ranks = {RANKS.get(line.get("endpoint", ""), 0) for line in self._lines()}
        self.feeds = {
            rank: self.index.open(Source(Holder(ADDRESS, rank), "tcp://x", base_model="tiny"))
            for rank in sorted(ranks)
        }

    def _lines(self) -> Iterator[dict[str, Any]]:
        for lines in self.frames.values():
            yield from lines

    def hear(self, step: str) -> None:
        """The frames of a step, which came after its first request was sent."""
        for line in self.frames.pop(step, []):
            rank = RANKS.get(line.get("endpoint", ""), 0)
            self.feeds[rank].receive(make.captured_frames(line), line["t"])

    def predicted(self, request: dict[str, Any]) -> int:
        """Tokens that the engine will reuse: it always computes the last one."""
        tokens = request["prompt_token_ids"][0]
        identity = Identity("tiny", request["lora"], request["cache_salt"])
        rank = int(request["headers"].get("X-data-parallel-rank", 0))
        match = self.index.match([identity], pack(tokens), 0.0).matches.get(Holder(ADDRESS, rank))
        return min(match.blocks if match else 0, (len(tokens) - 1) // 16) * 16


def _is_predictable(request: dict[str, Any]) -> bool:
    """One prompt, alone, that looks for reuse and whose rank is known."""
    body = request["body"]
    return (
        len(request.get("prompt_token_ids") or ()) == 1
        and not request.get("concurrent")
        and "prompt_logprobs" not in body
    )


def _surprises(replayed: Replayed, needs_rank: bool) -> tuple[int, dict[str, tuple[int, int]]]:
    """How many requests were predicted, and step → predicted, reused where they differ."""
    count, surprises = 0, {}
    for request in make.captured(replayed.name, "requests"):
        step = request["step"]
        has_rank = "X-data-parallel-rank" in request["headers"]
        if _is_predictable(request) and (has_rank or not needs_rank):
            count += 1
            predicted = replayed.predicted(request)
            if predicted != request["cached_tokens"]:
                surprises[step] = (predicted, request["cached_tokens"])
        replayed.hear(step)
    return count, surprises


@pytest.mark.parametrize(
    ("name", "count", "surprises"),
    [
        # The engine had announced resident blocks again, in its full report mode.
        ("bs16_sha256_full", 59, {"052-A-after-evictions": (160, 0)}),
        ("bs16_sha256cbor_bytes", 21, {}),
        ("bs16_dp2", 9, {}),
        # The engine was killed and had not said anything yet.
        ("bs16_restart", 6, {"run2-A": (48, 0)}),
    ],
)
def test_predicts_what_the_engine_reused(
    name: str, count: int, surprises: dict[str, tuple[int, int]]
) -> None:
    replayed = Replayed(name)
    assert _surprises(replayed, needs_rank=name == "bs16_dp2") == (count, surprises)
    assert not replayed.frames
    for feed in replayed.feeds.values():
        assert feed.trust is Trust.EXACT
        assert (feed.rejected, feed.stats.gaps, feed.stats.duplicates) == ({}, 0, 0)
        assert feed.stats.restarts == (name == "bs16_restart")


def test_a_set_without_counts_would_forget_a_block_that_has_a_second_copy() -> None:
    replayed = Replayed("bs16_sha256_full")
    replayed.index = PrefixIndex(16, count_repeats=False)
    replayed.feeds = {0: replayed.index.open(Source(Holder(ADDRESS), "tcp://x"))}
    _, surprises = _surprises(replayed, needs_rank=False)
    assert surprises == {"067-D-plus-one-after-first-copy-removed": (48, 64)}


@pytest.mark.parametrize(("fine_size", "coarse_size"), [(8, 16), (16, 32), (16, 64)])
def test_an_index_of_another_block_size_predicts_as_much(fine_size: int, coarse_size: int) -> None:
    """Whole blocks of the engine where those of the index are smaller, whole ones of the index."""
    fine = Replayed("bs16_sha256_full", fine_size)
    coarse = Replayed("bs16_sha256_full", coarse_size)
    compared = 0
    for request in make.captured("bs16_sha256_full", "requests"):
        if _is_predictable(request):
            tokens = pack(request["prompt_token_ids"][0])
            identities = [Identity("tiny", request["lora"], request["cache_salt"])]
            large, small = (r.index.match(identities, tokens, 0.0) for r in (coarse, fine))
            for holder, match in small.matches.items():
                tokens_held = match.blocks * fine_size
                found = large.matches.get(holder)
                whole = found.blocks * coarse_size if found else 0
                assert whole == tokens_held // coarse_size * coarse_size
                compared += 1
        coarse.hear(request["step"])
        fine.hear(request["step"])
    assert compared > 20
    assert coarse.feeds[0].rejected == fine.feeds[0].rejected == {}


REENCODED = [
    "reencoded_vllm_0.9-0.10.0",
    "reencoded_vllm_0.10.2-0.13",
    "reencoded_vllm_0.20-0.21",
    "reencoded_vllm_0.22-0.23",
    "reencoded_sglang_0.5.9-0.5.15",
    "reencoded_sglang_0.5.18",
    "reencoded_sglang_0.5.23",
]
SALTED, ADAPTED = "026-salt-x", "030-lora-sql"
TELLS_SALT_AND_NAME = {
    "reencoded_vllm_0.20-0.21",
    "reencoded_vllm_0.22-0.23",
    "reencoded_sglang_0.5.23",
}
"""The layouts that have a field for both."""


def _answers(frames: list[list[bytes]], requests: list[dict[str, Any]]) -> list[dict[str, int]]:
    """After each message: step → blocks matched by its request."""
    index = PrefixIndex(16)
    feed = index.open(Source(Holder(ADDRESS), "tcp://x"))
    answers: list[dict[str, int]] = []
    for number, (topic, _, payload) in enumerate(frames):
        feed.receive([topic, number.to_bytes(8, "big"), payload], 0.0)
        answers.append({})
        for request in requests:
            identity = Identity("tiny", request["lora"], request["cache_salt"])
            tokens = pack(request["prompt_token_ids"][0])
            for match in index.match([identity], tokens, 0.0).matches.values():
                answers[-1][request["step"]] = match.blocks
    assert (feed.rejected, feed.trust) == ({}, Trust.EXACT)
    return answers


@pytest.mark.parametrize("name", REENCODED)
def test_older_layouts_give_the_same_matches(name: str) -> None:
    lines = list(make.captured(name, "frames"))
    payloads = {line["step"] for line in lines}
    original = [x for x in make.captured("bs16_sha256_full", "frames") if x["step"] in payloads]
    requests = [r for r in make.captured("bs16_sha256_full", "requests") if r["step"] in payloads]
    older = _answers([make.captured_frames(line) for line in lines], requests)
    current = _answers([make.captured_frames(line) for line in original], requests)
    assert len(older) == len(current) == 21
    assert any(len(answer) > 5 for answer in current)
    differing = {
        step
        for one, other in zip(older, current, strict=True)
        for step in {*one, *other}
        if one.get(step) != other.get(step)
    }
    assert differing == (set() if name in TELLS_SALT_AND_NAME else {SALTED, ADAPTED})


def test_a_prefill_and_a_decode_engine_are_told_apart_and_the_first_predicted() -> None:
    """A decode engine announces what it pulled, too; it reports the reuse of the other's."""
    index = PrefixIndex(16)
    prefill, decode = Holder("prefill"), Holder("decode")
    feeds = {h.address: index.open(Source(h, "tcp://x")) for h in (prefill, decode)}
    frames: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in make.captured("pd_nixl", "frames"):
        frames[line["step"]].append(line)
    held: list[int] = []
    for request in make.captured("pd_nixl", "requests"):
        answer = request.get("response") or {}
        for choice in answer.get("choices", ())[:1]:
            ids = choice.get("prompt_token_ids") or answer.get("prompt_token_ids")
            ids = ids or request["body"]["prompt"]
            matches = index.match([Identity("tiny")], pack(ids), 0.0).matches
            blocks = {h: min(m.blocks, (len(ids) - 1) // 16) for h, m in matches.items()}
            if request["engine"] == "prefill" and feeds["prefill"].order.next is not None:
                held.append(blocks.get(prefill, 0) * 16)
                assert held[-1] == answer["usage"]["prompt_tokens_details"]["cached_tokens"]
            if request["step"] == "pd-shared-prefix-1-prefill":
                assert blocks[decode] == 5
        for line in frames.pop(request["step"], ()):
            feeds[line["engine"]].receive(make.captured_frames(line), 0.0)
    assert (len(held), sum(held)) == (11, 400)
    assert {name: feed.trust for name, feed in feeds.items()} == {
        "prefill": Trust.PARTIAL,  # the recording begins with its second message
        "decode": Trust.EXACT,
    }
