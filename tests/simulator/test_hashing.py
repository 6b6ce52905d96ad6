from __future__ import annotations

from simulator.hashing import Adapter, Hasher, Identity, root

SQL = Adapter("sql", "/loras/sql", 1)


def test_a_block_hash_depends_on_every_token_before_it() -> None:
    hasher = Hasher(2)
    one = hasher.chain([1, 2, 3, 4], Identity())
    other = hasher.chain([9, 2, 3, 4], Identity())
    assert len(one) == 2
    assert set(one).isdisjoint(other)
    assert hasher.chain([1, 2, 9, 4], Identity())[0] == one[0]


def test_tokens_of_a_block_that_is_not_full_have_no_hash() -> None:
    assert len(Hasher(4).chain([1, 2, 3, 4, 5, 6, 7], Identity())) == 1


def test_hashing_goes_on_from_known_blocks() -> None:
    hasher = Hasher(2)
    identity = Identity(SQL, "salt")
    whole = hasher.chain([1, 2, 3, 4, 5, 6], identity)
    assert hasher.chain([1, 2, 3, 4, 5, 6], identity, whole[:1]) == whole[1:]


def test_a_salt_and_an_adapter_give_hashes_of_their_own() -> None:
    hasher = Hasher(2)
    tokens = [1, 2, 3, 4]
    chains = [
        hasher.chain(tokens, identity)
        for identity in (
            Identity(),
            Identity(SQL),
            Identity(Adapter("sql", "/loras/other", 1)),
            Identity(cache_salt="a"),
            Identity(cache_salt="b"),
        )
    ]
    assert len({digest for chain in chains for digest in chain}) == 10


def test_the_adapters_number_does_not_enter_the_hash() -> None:
    other = Adapter("sql", "/loras/sql", 7)
    assert Hasher(2).chain([1, 2], Identity(SQL)) == Hasher(2).chain([1, 2], Identity(other))


def test_events_name_the_adapter_on_each_block_and_the_salt_on_the_first() -> None:
    identity = Identity(SQL, "salt")
    assert [identity.announced(0), identity.announced(1)] == [("sql", "salt"), ("sql",)]
    assert Identity().announced(0) is None
    assert Identity(cache_salt="salt").announced(1) is None


def test_the_seed_is_the_root_of_all_hashes() -> None:
    assert root("a") != root("b")
    assert Hasher(1, "a").chain([1], Identity()) != Hasher(1, "b").chain([1], Identity())
