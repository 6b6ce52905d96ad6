"""The cache of pieces: what it forgets, what it counts, many threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from tokenizer_sidecar.cache import ENTRY_BYTES, PieceCache

ROOM_FOR_10 = 10 * (ENTRY_BYTES + 6)


def put(cache: PieceCache, *pieces: bytes) -> None:
    for piece in pieces:
        cache.put(piece, b"\1\0\0\0")


def test_what_was_not_asked_for_the_longest_is_forgotten_first() -> None:
    cache = PieceCache(ROOM_FOR_10)
    put(cache, *(b"%02d" % i for i in range(10)))
    assert cache.get([b"00"]) == [b"\1\0\0\0"]
    put(cache, b"new")
    assert cache.get([b"00", b"01", b"02"])[0] is not None
    assert cache.get([b"01"]) == [None]
    assert cache.stats().evicted >= 1


def test_statistics_are_in_tokens() -> None:
    cache = PieceCache(1 << 20)
    cache.put(b"abc", b"\1\0\0\0\2\0\0\0")
    cache.get([b"abc", b"abc", b"other"])
    stats = cache.stats()
    assert (stats.new_tokens, stats.hit_tokens, stats.entries) == (2, 4, 1)
    assert stats.bytes == ENTRY_BYTES + 3 + 8


def test_one_long_piece_does_not_drive_out_all_others() -> None:
    cache = PieceCache(ROOM_FOR_10)
    put(cache, b"short", b"x" * 1000)
    assert cache.get([b"short", b"x" * 1000]) == [b"\1\0\0\0", None]


def test_a_cache_without_room_keeps_nothing() -> None:
    cache = PieceCache(0)
    put(cache, b"a")
    assert cache.get([b"a"]) == [None]


@given(st.lists(st.tuples(st.sampled_from("abcdefghijklmnop"), st.integers(0, 90)), max_size=200))
def test_memory_is_bounded_and_answers_are_what_was_put(puts: list[tuple[str, int]]) -> None:
    cache = PieceCache(3000)
    for letter, count in puts:
        cache.put(letter.encode() * count, letter.encode() * 4)
        assert cache.stats().bytes <= 3000
        for known in (cache.get([each.encode() * count])[0] for each in "abcdefghijklmnop"):
            assert known is None or count == 0 or len(set(known)) == 1
        (own,) = cache.get([letter.encode() * count])
        assert own is None or count == 0 or own == letter.encode() * 4


def test_many_threads_keep_the_account_right() -> None:
    cache = PieceCache(40 * (ENTRY_BYTES + 8))

    def work(seed: int) -> None:
        for i in range(400):
            piece = b"%04d" % ((i * seed) % 97)
            if cache.get([piece]) == [None]:
                cache.put(piece, piece)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(1, 25)))
    stats = cache.stats()
    assert stats.bytes == stats.entries * (ENTRY_BYTES + 8)
    assert stats.entries <= 40
