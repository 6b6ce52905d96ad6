"""Handing a prompt's cache from one engine to another, in the words of vLLM's NixlConnector.

An engine that is asked to prefill for another one says in its answer where the blocks are. The
other one computes only the last token of the prompt and announces the blocks as its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

LEASE_S = 30.0
"""How long blocks can be fetched, as in vLLM."""

HANDED_OVER = frozenset({"length", "stop"})
"""Ends of an answer after which there is something to fetch."""


class TransferAsk(msgspec.Struct, frozen=True):
    """`kv_transfer_params` of a request; `prompt_token_ids` works without a connector."""

    prompt_token_ids: list[int] | None = None
    do_remote_decode: bool | None = None
    do_remote_prefill: bool | None = None
    remote_engine_id: str | None = None
    remote_request_id: str | None = None
    remote_block_ids: list[list[int]] | None = None
    remote_host: str | None = None
    remote_port: int | None = None
    remote_num_tokens: int | None = None
    remote_prefill_cached_tokens: int | None = None

    @property
    def is_complete(self) -> bool:
        """It says where the blocks are."""
        needed = (
            self.remote_engine_id,
            self.remote_request_id,
            self.remote_block_ids,
            self.remote_host,
            self.remote_port,
        )
        return None not in needed


class Exports:
    """The prompts of one engine that others may fetch.

    Attributes:
        engine_id: What other engines know this one by; another one after each start.
    """

    def __init__(self, engine_id: str) -> None:
        self.engine_id = engine_id
        self._until_s: dict[str, float] = {}

    def add(self, request_id: str, now_s: float) -> None:
        """A prompt can be fetched from now on."""
        # Leases are all equally long, so the oldest come first.
        while self._until_s and next(iter(self._until_s.values())) <= now_s:
            del self._until_s[next(iter(self._until_s))]
        self._until_s[request_id] = now_s + LEASE_S

    def has(self, engine_id: str, request_id: str, now_s: float) -> bool:
        """Whether it can be fetched still."""
        return engine_id == self.engine_id and self._until_s.get(request_id, 0.0) > now_s


def offer(
    engine_id: str,
    request_id: str,
    place: tuple[str, int],
    blocks: Sequence[int],
    tokens: int,
    cached: int,
) -> dict[str, Any]:
    """`kv_transfer_params` of the answer: `blocks` of a prompt of so many tokens lie at `place`."""
    host, port = place
    return {
        "do_remote_prefill": True,
        "do_remote_decode": False,
        "remote_block_ids": [list(blocks)],
        "remote_engine_id": engine_id,
        "remote_request_id": request_id,
        "remote_host": host,
        "remote_port": port,
        "tp_size": 1,
        "dcp_size": 1,
        "pp_size": 1,
        "remote_num_tokens": tokens,
        "remote_blocks_expiry_time": None,
        "transfer_mode": "pull",
        "remote_prefill_cached_tokens": cached,
    }
