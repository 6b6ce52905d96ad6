"""Block hashes: their two steps, and what keeps identities and media apart."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from indexer.block import Identity
from indexer.hashing import block_hashes, chain_hashes, content_hashes, pack, root
from tests.indexer import make

TOKEN_LISTS = st.lists(st.integers(0, 2**32 - 1), max_size=80)
IDENTITIES = st.builds(
    Identity, st.text(max_size=4), st.none() | st.text(max_size=4), st.none() | st.text(max_size=4)
)


def test_packs_ids_as_little_endian_u32() -> None:
    assert pack([1, 2**32 - 1]) == b"\x01\x00\x00\x00\xff\xff\xff\xff"


@pytest.mark.parametrize("token", [-1, 2**32, 1.5, "1"])
def test_refuses_to_pack_what_is_no_token_id(token: object) -> None:
    with pytest.raises((OverflowError, TypeError)):
        pack([token])  # type: ignore[list-item]


def test_hashes_content_first_and_then_chains_it() -> None:
    tokens = pack(range(32))
    local = [xxh3_64_intdigest(tokens[at : at + 64], 1337) for at in (0, 64)]
    first = xxh3_64_intdigest(struct.pack("<Q", local[0]), 99)
    second = xxh3_64_intdigest(struct.pack("<Q", local[1]), first)
    assert block_hashes(tokens, 16, 99) == [first, second]


def test_content_hash_has_the_value_that_other_routers_use() -> None:
    # XXH3-64 with seed 1337 over ids 0..15 as little-endian u32.
    local = xxh3_64_intdigest(pack(range(16)), 1337)
    assert block_hashes(pack(range(16)), 16, 0) == [
        xxh3_64_intdigest(local.to_bytes(8, "little"), 0)
    ]


def test_a_partial_block_has_no_hash() -> None:
    assert block_hashes(pack(range(15)), 16, 1) == []
    assert block_hashes(pack(range(47)), 16, 1) == block_hashes(pack(range(32)), 16, 1)


@given(TOKEN_LISTS, TOKEN_LISTS, st.integers(0, 2**64 - 1), st.sampled_from([1, 4, 16]))
def test_a_chain_continues_where_its_parent_ends(
    head: list[int], tail: list[int], seed: int, size: int
) -> None:
    head = head[: len(head) // size * size]
    hashes = block_hashes(pack(head), size, seed)
    parent = hashes[-1] if hashes else seed
    assert block_hashes(pack(head + tail), size, seed) == hashes + block_hashes(
        pack(tail), size, parent
    )


@given(IDENTITIES, IDENTITIES)
def test_different_identities_have_different_roots(one: Identity, other: Identity) -> None:
    assert (root(one) == root(other)) == (one == other)


@given(IDENTITIES, IDENTITIES, st.integers(0, 9))
def test_no_request_has_the_root_of_an_unnamed_adapter(
    event: Identity, request: Identity, number: int
) -> None:
    assert root(event, number) != root(request)


def test_media_change_their_block_and_those_behind_it_only() -> None:
    tokens = pack(make.prompt())
    plain = block_hashes(tokens, 16, 1)
    with_image = block_hashes(tokens, 16, 1, {2: ["image-x"]})
    assert with_image[:2] == plain[:2]
    assert set(with_image[2:]).isdisjoint(plain)
    assert block_hashes(tokens, 16, 1, {2: ["image-y"]})[2:] != with_image[2:]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({0: ["ab"]}, {0: ["a", "b"]}),
        ({0: ["a", "b"]}, {0: ["b", "a"]}),
        ({0: ["a"]}, {0: [b"a"]}),
        ({0: ["a"]}, {1: ["a"]}),
    ],
    ids=["one id or two", "order", "media or embeddings", "place"],
)
def test_media_that_differ_hash_differently(
    one: dict[int, list[str | bytes]], other: dict[int, list[str | bytes]]
) -> None:
    tokens = pack(make.prompt())
    assert block_hashes(tokens, 16, 1, one)[-1] != block_hashes(tokens, 16, 1, other)[-1]


def test_a_single_block_carries_its_media_too() -> None:
    tokens = pack(make.prompt(1))
    assert block_hashes(tokens, 16, 1) == block_hashes(pack(make.prompt(2)), 16, 1)[:1]
    assert block_hashes(tokens, 16, 1, {0: ["x"]}) != block_hashes(tokens, 16, 1)


def test_no_media_is_the_same_as_media_on_no_block() -> None:
    tokens = pack(make.prompt())
    assert block_hashes(tokens, 16, 1, {}) == block_hashes(tokens, 16, 1, {9: ["x"]})


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 128, 130, 300])
def test_many_blocks_are_hashed_as_one_after_the_other(count: int) -> None:
    tokens = pack(range(count * 16 + 5))
    parent, expected = 7, []
    for at in range(count):
        (parent,) = block_hashes(tokens[at * 64 : at * 64 + 64], 16, parent)
        expected.append(parent)
    assert block_hashes(tokens, 16, 7) == expected
    assert chain_hashes(content_hashes(tokens, 16), 7) == expected
