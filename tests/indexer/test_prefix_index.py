"""PrefixIndex: the index as the router uses it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from indexer.block import Holder, Identity, Match, Trust
from indexer.events import Reason
from indexer.feed import Feed, Source
from indexer.hashing import pack
from indexer.prefix_index import Lookup, PrefixIndex
from tests.indexer import make
from tests.indexer.make import BASE, E1, E2, NAMES


def _open(index: PrefixIndex, holder: Holder = E1) -> Feed:
    return index.open(Source(holder, f"tcp://{holder.address}"))


def _warm(index: PrefixIndex, holder: Holder = E1) -> Feed:
    feed = _open(index, holder)
    feed.receive(make.frames(0, make.stored()), 1.0)
    return feed


def _match(
    index: PrefixIndex,
    tokens: Sequence[int] | None = None,
    identities: Sequence[Identity] = (BASE,),
    now: float = 0.0,
    **fields: dict[int, list[str | bytes]],
) -> Lookup:
    return index.match(identities, pack(make.prompt() if tokens is None else tokens), now, **fields)


def _blocks(index: PrefixIndex, now: float = 0.0) -> dict[Holder, int]:
    return {h: match.blocks for h, match in _match(index, now=now).matches.items()}


def _settled(index: PrefixIndex) -> None:
    for _ in range(1000):
        if not index.tick(0.0):
            return
    raise AssertionError("the upkeep has no end")


def test_a_lookup_tells_the_prompts_blocks_and_who_has_them() -> None:
    index = PrefixIndex(16)
    _warm(index)
    lookup = _match(index, [*make.prompt(5), 1, 2])
    assert lookup.total_blocks == 5
    assert lookup.matches == {E1: Match(4, {"gpu": 4}, 4)}


def test_media_of_a_request_are_part_of_its_blocks() -> None:
    index = PrefixIndex(16)
    feed = _open(index)
    feed.receive(make.frames(0, make.stored(extra_keys=[None, [["x", 0]], None, None])), 1.0)
    assert _match(index, media={1: ["x"]}).matches[E1].blocks == 4
    assert _match(index, media={1: ["y"]}).matches[E1].blocks == 1


def test_engines_that_publish_under_different_names_are_matched_together() -> None:
    index = PrefixIndex(16)
    _warm(index)
    _open(index, E2).receive(make.frames(0, make.stored(), topic=b"kv@a@alias"), 1.0)
    identities = [Identity("alias"), BASE, Identity("never seen")]
    lookup = _match(index, identities=identities)
    assert set(lookup.matches) == {E1, E2}
    assert [reading.identity.model for reading in lookup.readings] == ["alias", "tiny"]
    assert index.models_seen() == {"tiny", "alias"}


def test_of_two_names_the_better_match_counts() -> None:
    index = PrefixIndex(16)
    feed = _warm(index)
    feed.receive(make.frames(1, make.stored([5], make.prompt(1)), topic=b"kv@a@alias"), 1.0)
    for identities in ([Identity("alias"), BASE], [BASE, Identity("alias")]):
        assert _match(index, identities=identities).matches[E1].blocks == 4


def test_a_guess_counts_until_it_expires() -> None:
    index = PrefixIndex(16)
    index.guess(_match(index), E1, expires_at=2.0)
    assert _match(index, now=1.5).matches == {E1: Match(0, {}, 4)}
    assert _match(index, now=2.5).matches == {}
    assert index.stats().guess_stats.expired == 4


def test_a_guess_covers_only_what_is_not_confirmed() -> None:
    index = PrefixIndex(16)
    _warm(index)
    index.guess(_match(index, make.prompt(6)), E1, 2.0)
    assert index.stats().guesses == 2
    assert _match(index, make.prompt(6)).matches[E1] == Match(4, {"gpu": 4}, 6)


def test_a_confirmed_guess_outlives_its_expiry_and_dies_by_removal() -> None:
    index = PrefixIndex(16)
    feed = _open(index)
    ticket = index.guess(_match(index), E1, 2.0)
    feed.receive(make.frames(0, make.stored()), 1.0)
    assert _blocks(index, now=2.5) == {E1: 4}
    index.withdraw(ticket)
    assert _blocks(index) == {E1: 4}
    assert index.stats().guess_stats.confirmed == 4
    feed.receive(make.frames(1, make.removed()), 1.0)
    assert _match(index).matches == {}


def test_guesses_are_made_under_the_name_that_the_engine_publishes() -> None:
    index = PrefixIndex(16)
    feed = _open(index)
    feed.receive(make.frames(0, topic=b"kv@a@alias"), 1.0)
    index.guess(_match(index, identities=[BASE, Identity("alias")]), E1, 2.0)
    feed.receive(make.frames(1, make.stored(), topic=b"kv@a@alias"), 1.0)
    assert index.stats().guess_stats.confirmed == 4


def test_guesses_can_be_extended_and_withdrawn() -> None:
    index = PrefixIndex(16)
    ticket = index.guess(_match(index), E1, 2.0)
    index.extend(ticket, 4.0)
    assert set(_match(index, now=3.0).matches) == {E1}
    index.withdraw(ticket)
    assert _match(index).matches == {}


def test_guesses_for_one_engine_are_not_its_neighbours() -> None:
    index = PrefixIndex(16)
    index.guess(_match(index), E1, 2.0)
    assert set(_match(index).matches) == {E1}


def test_a_closed_stream_leaves_nothing_behind() -> None:
    index = PrefixIndex(16)
    feed = _warm(index)
    _warm(index, E2)
    index.guess(_match(index, make.prompt(6)), E1, 9.0)
    index.close(feed)
    feed.receive(make.frames(1, make.stored()), 1.0)
    assert _blocks(index) == {E2: 4}
    _settled(index)
    assert index.stats().sizes["blocks"] == 4
    assert index.holders() == (E2,)
    _open(index)
    assert _blocks(index) == {E2: 4}


def test_closing_a_stream_makes_the_holders_other_streams_partial() -> None:
    index = PrefixIndex(16)
    one, two = _warm(index), _warm(index)
    index.close(one)
    assert _blocks(index) == {}
    assert (two.trust, index.trust(E1)) == (Trust.PARTIAL, Trust.PARTIAL)


def test_a_dropped_endpoint_loses_all_its_ranks_and_no_neighbour() -> None:
    index = PrefixIndex(16)
    ranks = [Holder(E1.address, rank) for rank in range(3)]
    for holder in (*ranks, E2):
        _warm(index, holder)
    index.guess(_match(index, make.prompt(6)), ranks[1], 9.0)
    index.drop_endpoint(E1.address)
    assert _blocks(index) == {E2: 4}
    assert index.holders() == (E2,)


def test_an_endpoint_with_guesses_only_can_be_dropped() -> None:
    index = PrefixIndex(16)
    index.guess(_match(index), E1, 9.0)
    index.drop_endpoint(E1.address)
    assert _match(index).matches == {}
    assert index.holders() == ()


def test_a_restarted_endpoint_is_filled_anew() -> None:
    index = PrefixIndex(16)
    feed = _warm(index)
    index.restarted(E1.address)
    assert (_blocks(index), index.trust(E1)) == ({}, Trust.PARTIAL)
    feed.receive(make.frames(0, make.stored(NAMES[:2])), 1.0)
    assert (_blocks(index), index.trust(E1)) == ({E1: 2}, Trust.EXACT)


def test_a_lost_endpoint_is_credited_again_when_proven_the_same() -> None:
    index = PrefixIndex(16)
    feed = _warm(index)
    feed.lost()
    assert (_blocks(index), index.trust(E1)) == ({}, Trust.STALE)
    index.same_process(E2.address)
    assert _blocks(index) == {}
    index.same_process(E1.address)
    assert (_blocks(index), index.trust(E1)) == ({E1: 4}, Trust.PARTIAL)
    feed.receive(make.frames(1), 1.0)
    assert index.trust(E1) is Trust.EXACT


def test_an_endpoint_dropped_while_its_stream_is_lost_starts_clean() -> None:
    index = PrefixIndex(16)
    feed = _warm(index)
    feed.lost()
    index.close(feed)
    _warm(index)
    assert (_blocks(index), index.trust(E1)) == ({E1: 4}, Trust.EXACT)


def test_trust_is_that_of_the_worst_stream() -> None:
    index = PrefixIndex(16)
    one, _ = _warm(index), _warm(index)
    assert index.trust(E1) is Trust.EXACT
    one.missed_something()
    assert index.trust(E1) is Trust.PARTIAL
    one.lost()
    assert index.trust(E1) is Trust.STALE
    assert index.trust(E2) is Trust.PARTIAL


def test_the_state_of_a_holder_says_why_it_does_not_match() -> None:
    index = PrefixIndex(16)
    feed = _open(index)
    feed.receive(make.frames(0, make.stored([1], list(range(24)), block_size=24)), 1.0)
    state = index.state(E1)
    assert (state.block_size, state.blocks, state.refused) == (24, {}, None)
    assert state.rejected == {Reason.BLOCK_SIZE_MISMATCH: 1}
    assert state.models == {"tiny"}
    feed.receive(make.frames(1, make.stored(kv_cache_spec_kind="mamba")), 1.0)
    assert index.state(E1).refused is Reason.UNSUPPORTED_GROUP
    assert index.state(E2).trust is Trust.PARTIAL
    assert index.holders() == (E1,)


def test_rejections_are_counted_beyond_the_end_of_their_stream() -> None:
    index = PrefixIndex(16)
    feed = _open(index)
    feed.receive([b"junk"], 1.0)
    feed.receive(make.frames(0, make.stored([1], list(range(24)), block_size=24)), 1.0)
    expected = {Reason.BAD_FRAMES: 1, Reason.BLOCK_SIZE_MISMATCH: 1}
    assert index.stats().rejected == expected
    index.close(feed)
    assert index.stats().rejected == expected
    assert index.feeds() == ()


@pytest.mark.parametrize("keep", [False, True], ids=["alone", "beside another"])
def test_everything_returns_to_its_size_after_churn(keep: bool) -> None:
    index = PrefixIndex(16)
    if keep:
        _warm(index, E2)
        _settled(index)
    idle = index.stats().sizes
    for cycle in range(30):
        feed = _open(index)
        names = [cycle * 1000 + n for n in range(200)]
        feed.receive(make.frames(0, make.stored(names)), 1.0)
        feed.receive(make.frames(1, make.removed(names[100:])), 1.0)
        index.guess(_match(index, make.prompt(210)), E1, 1e9)
        assert _match(index, make.prompt(200)).matches[E1].blocks == 100
        index.close(feed)
        index.tick(0.0, max_blocks=50)
    _settled(index)
    stats = index.stats()
    assert (stats.sizes, stats.guesses, stats.holders) == (idle, 0, int(keep))


@pytest.mark.parametrize("end", ["closed", "dropped"])
def test_nothing_is_left_of_small_blocks_and_of_what_waited(end: str) -> None:
    index = PrefixIndex(64)
    for _ in range(3):
        feed = _open(index)
        orphan = make.stored([99], make.prompt(1, 5000), parent=98)
        feed.receive(make.frames(0, make.stored(range(1, 9), make.prompt(8)), orphan), 1.0)
        assert index.stats().sizes["pieces"] == 8
        if end == "dropped":
            index.drop_endpoint(E1.address)
        index.close(feed)
        _settled(index)
        assert set(index.stats().sizes.values()) == {0}


def test_the_block_size_is_the_routers() -> None:
    assert PrefixIndex(64).block_size == 64


def test_repeats_and_tiers_are_configured() -> None:
    index = PrefixIndex(16, count_repeats=False, tiers=("cpu", "gpu"))
    feed = _warm(index)
    feed.receive(make.frames(1, make.stored(), make.stored(medium="CPU")), 1.0)
    assert _match(index).matches[E1].tiers == {"cpu": 4}
    feed.receive(make.frames(2, make.removed(medium="CPU"), make.removed()), 1.0)
    assert _blocks(index) == {}
