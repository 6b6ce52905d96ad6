from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from indexer.hashing import pack
from router.producers.facts import MediaItem, Tokens
from router.producers.prefix_chain import chain

IDS = st.lists(st.integers(0, 300), max_size=40)


def tokens(ids: list[int] | range, *media: MediaItem) -> Tokens:
    return Tokens(pack(ids), media)


def test_names_are_those_that_llm_d_gives() -> None:
    assert chain(tokens(range(1, 129)), 64, "test-model", None) == (
        3520800852488867500,
        3093390089735223102,
    )


def test_a_last_block_that_is_not_full_has_a_name_too() -> None:
    assert chain(tokens(range(1, 71)), 64, "test-model", None) == (
        3520800852488867500,
        4875466574582357214,
    )


def test_no_more_blocks_are_named_than_are_looked_at() -> None:
    whole = chain(tokens(range(100)), 10, "m", None)
    assert chain(tokens(range(100)), 10, "m", None, 3) == whole[:3]
    assert chain(tokens(range(100)), 10, "m", None, 0) == ()


@given(IDS, IDS, st.integers(1, 9))
def test_names_are_equal_exactly_as_far_as_prompts_are(
    first: list[int], second: list[int], size: int
) -> None:
    one, two = chain(tokens(first), size, "m", None), chain(tokens(second), size, "m", None)
    assert len(one) == -(-len(first) // size)
    for block, (a, b) in enumerate(zip(one, two, strict=False), 1):
        assert (a == b) == (first[: block * size] == second[: block * size])


def test_another_model_salt_or_item_has_other_names() -> None:
    ids = range(8)
    image, other = MediaItem("i", 4, 2), MediaItem("j", 4, 2)
    chains = [
        chain(tokens(ids), 4, "m", None),
        chain(tokens(ids), 4, "ms", None),
        chain(tokens(ids), 4, "m", "s"),
        chain(tokens(ids), 4, "m", ""),
    ]
    assert len({names[0] for names in chains}) == 4
    assert len({names[1] for names in chains}) == 4
    pictured = [chain(tokens(ids, item), 4, "m", None) for item in (image, other)]
    assert {names[0] for names in pictured} == {chains[0][0]}
    assert len({chains[0][1], *(names[1] for names in pictured)}) == 3


def test_an_item_names_every_block_that_it_touches() -> None:
    plain = chain(tokens(range(16)), 4, "m", None)
    long = chain(tokens(range(16), MediaItem("i", 7, 2)), 4, "m", None)
    assert [a == b for a, b in zip(plain, long, strict=True)] == [True, False, False, False]
    once = chain(tokens(range(16), MediaItem("i", 7, 1)), 4, "m", None)
    assert once[1] == long[1]
    assert once[2] != long[2]


def test_a_last_block_of_a_prompt_that_goes_on_is_named_only_if_it_is_full() -> None:
    whole = chain(tokens(range(12)), 4, "m", None)
    for count in range(13):
        begun = Tokens(pack(range(count)), partial=True)
        assert chain(begun, 4, "m", None) == whole[: count // 4]
