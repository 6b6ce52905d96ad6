"""The cache of pieces: what it forgets, what it counts, what is encoded, many threads."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from sys import getsizeof

from hypothesis import given
from hypothesis import strategies as st

from tokenizer_sidecar.cache import ENTRY_BYTES, PieceCache

IDS = b"\1\0\0\0"


def room(count: int, piece: str, ids: bytes = IDS) -> int:
    return count * (ENTRY_BYTES + getsizeof(piece) + getsizeof(ids))


def put(cache: PieceCache, *pieces: str) -> None:
    for piece in pieces:
        cache.put([piece], [IDS])


def test_what_was_not_asked_for_the_longest_is_forgotten_first() -> None:
    cache = PieceCache(room(10, "00"))
    put(cache, *(f"{i:02}" for i in range(10)))
    assert cache.get("00") == IDS
    put(cache, "10")
    assert cache.get("00") is not None
    assert cache.get("02") is not None
    assert cache.get("01") is None
    assert cache.stats().evicted == 1


def test_statistics_are_in_tokens() -> None:
    cache = PieceCache(1 << 20)
    cache.put(["abc"], [IDS * 2])
    for piece in ("abc", "abc", "other"):
        cache.get(piece)
    stats = cache.stats()
    assert (stats.new_tokens, stats.hit_tokens, stats.entries) == (2, 4, 1)
    assert stats.bytes == room(1, "abc", IDS * 2)


def test_text_that_takes_more_memory_counts_for_more() -> None:
    narrow, wide = PieceCache(1 << 20), PieceCache(1 << 20)
    put(narrow, "e" * 1000)
    put(wide, "\N{GRINNING FACE}" * 1000)
    assert wide.stats().bytes > narrow.stats().bytes + 2900


def test_one_long_piece_does_not_drive_out_all_others() -> None:
    cache = PieceCache(room(10, "00"))
    put(cache, "short", "x" * 1000)
    assert cache.get("short") == IDS
    assert cache.get("x" * 1000) is None


def test_a_cache_without_room_keeps_nothing() -> None:
    cache = PieceCache(0)
    put(cache, "a")
    assert cache.get("a") is None


class Encoding:
    """Encodes each letter to the number it has, and keeps the calls."""

    def __init__(self) -> None:
        self.runs: list[list[str]] = []

    def __call__(self, pieces: Sequence[str]) -> Sequence[bytes]:
        self.runs.append(list(pieces))
        return [piece.encode("utf-32-le") for piece in pieces]


def test_neighbours_that_are_not_there_are_encoded_together() -> None:
    encoding = Encoding()
    cache = PieceCache(1 << 20)
    cache.through("c", encoding)
    assert cache.through("abcde", encoding) == "abcde".encode("utf-32-le")
    assert encoding.runs == [["c"], ["a", "b"], ["d", "e"]]


def test_a_piece_that_comes_again_in_a_run_is_encoded_once() -> None:
    encoding = Encoding()
    assert PieceCache(1 << 20).through("abab", encoding) == "abab".encode("utf-32-le")
    assert encoding.runs == [["a", "b"]]


@given(st.lists(st.text("abcdefgh", max_size=60), max_size=8), st.integers(0, 3000))
def test_whatever_is_kept_the_ids_are_those_of_all_pieces_in_their_order(
    texts: list[str], max_bytes: int
) -> None:
    cache = PieceCache(max_bytes)
    for text in texts:
        assert cache.through(iter(text), Encoding()) == text.encode("utf-32-le")


@given(st.lists(st.tuples(st.sampled_from("abcdefghijklmnop"), st.integers(0, 90)), max_size=200))
def test_memory_is_bounded_and_answers_are_what_was_put(puts: list[tuple[str, int]]) -> None:
    cache = PieceCache(3000)
    for letter, count in puts:
        cache.put([letter * count], [letter.encode() * 4])
        assert cache.stats().bytes <= 3000
        for known in (cache.get(each * count) for each in "abcdefghijklmnop"):
            assert known is None or count == 0 or len(set(known)) == 1
        own = cache.get(letter * count)
        assert own is None or count == 0 or own == letter.encode() * 4


def test_many_threads_keep_the_account_right() -> None:
    cache = PieceCache(room(40, "0000"))

    def work(seed: int) -> None:
        for i in range(400):
            piece = f"{(i * seed) % 97:04}"
            if cache.get(piece) is None:
                cache.put([piece], [IDS])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(1, 25)))
    stats = cache.stats()
    assert stats.bytes == room(stats.entries, "0000")
    assert stats.entries <= 40


@given(
    st.lists(st.lists(st.integers(0, 30), max_size=12, unique=True), max_size=20),
    st.integers(0, 20),
)
def test_what_follows_a_piece_is_there_as_long_as_both_are(
    runs: list[list[int]], pieces: int
) -> None:
    cache = PieceCache(room(pieces, "00"))
    for run in runs:
        cache.put([f"{number:02}" for number in run], [IDS] * len(run))
        for before, behind in cache.following.items():
            assert cache.get(before) is not None
            assert cache.get(behind) is not None
        assert len(set(cache.following.values())) == len(cache.following)


def test_a_piece_is_followed_by_the_one_that_was_new_behind_it() -> None:
    cache = PieceCache(1 << 20)
    cache.through("abc", Encoding())
    cache.through("abxyc", Encoding())
    assert cache.following == {"a": "b", "b": "c", "x": "y"}
