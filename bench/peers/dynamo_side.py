"""Dynamo's side, under the interpreter of `make peers`: its RadixTree and SelectionService. IO."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import count

import uvloop
from dynamo._core import (  # type: ignore[import-not-found]
    RadixTree,
    SelectionService,
    compute_block_hash_for_seq,
)

from bench.peers.side import EVENT_BLOCKS, Side

MODEL = "bench"
ENGINE = 1


class DynamoIndex:
    """Its tree works in a thread of its own; callers wait for that thread."""

    def __init__(self, block_size: int, known: int) -> None:
        """Endpoints need no place in it before they store, so `known` is of no use here."""
        self._block_size = block_size
        self._tree = RadixTree()

    def hold(self, tokens: Sequence[int], endpoints: range) -> None:
        step = EVENT_BLOCKS * self._block_size
        names, parent = count(10**18), None
        for number, at in enumerate(range(0, len(tokens), step)):
            contents = compute_block_hash_for_seq(list(tokens[at : at + step]), self._block_size)
            blocks = [{"block_hash": next(names), "tokens_hash": content} for content in contents]
            event = {
                "event_id": number,
                "data": {"stored": {"parent_hash": parent, "blocks": blocks}},
                "dp_rank": 0,
            }
            payload = json.dumps(event).encode()
            for endpoint in endpoints:
                self._tree.apply_event(endpoint, payload)
            parent = blocks[-1]["block_hash"]

    def call(self, tokens: Sequence[int]) -> Callable[[], object]:
        hashed, find, ids = compute_block_hash_for_seq, self._tree.find_matches, list(tokens)
        block_size = self._block_size
        # `scores` is where the answer becomes something that Python can read.
        return lambda: find(hashed(ids, block_size)).scores

    def reach(self, tokens: Sequence[int]) -> Sequence[int]:
        hashes = compute_block_hash_for_seq(list(tokens), self._block_size)
        return list(self._tree.find_matches(hashes).scores.values())


class DynamoStream:
    """One worker of a selection service."""

    def __init__(self) -> None:
        self._service = SelectionService()

    async def listen(self, endpoint: str, block_size: int) -> None:
        await self._service.upsert_worker(
            {
                "worker_id": ENGINE,
                "model_name": MODEL,
                "endpoint": "http://127.0.0.1:8000",
                "block_size": block_size,
                "max_num_batched_tokens": 8192,
                "data_parallel_start_rank": 0,
                "data_parallel_size": 1,
                "kv_events_endpoints": {0: endpoint},
            }
        )

    async def has(self, tokens: Sequence[int]) -> bool:
        request = {"model_name": MODEL, "token_ids": tokens}
        scores = await self._service.overlap_scores(request)
        return any(worker["device_blocks"] for worker in scores["workers"])

    async def blocks(self) -> int:
        snapshot = await self._service.indexer_snapshot()
        stored = (e["event"]["data"].get("stored") for e in snapshot[f"{MODEL}:default"]["events"])
        return sum(len(event["blocks"]) for event in stored if event)


if __name__ == "__main__":
    uvloop.run(Side(DynamoIndex, DynamoStream).serve())
