"""Whatever the layout, the same recording gives the same matches, as far as it can tell who."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from indexer.block import Holder, Identity, Trust
from indexer.feed import Feed, Source
from indexer.hashing import pack
from indexer.prefix_index import PrefixIndex
from tests.indexer import make
from tests.indexer.layouts import BATCHES, LAYOUTS, Layout, payload

RECORDINGS = ["bs16_sha256_full", "bs16_sha256cbor_bytes", "bs16_dp2", "bs16_restart"]
PLAIN, SALTED, ADAPTED = range(3)


class Heard:
    """What an index knows of a recording, heard in one layout."""

    def __init__(self, layout: Layout | None) -> None:
        self._layout = layout
        self._index = PrefixIndex(16)
        self.feeds: dict[str, Feed] = {}

    def hear(self, line: dict[str, Any]) -> None:
        endpoint = line.get("endpoint", "")
        feed = self.feeds.get(endpoint)
        if feed is None:
            holder = Holder("e", len(self.feeds))
            source = Source(holder, "tcp://x", base_model="tiny")
            feed = self.feeds[endpoint] = self._index.open(source)
        topic, number, content = make.captured_frames(line)
        feed.receive(
            [topic, number, payload(content, self._layout) if self._layout else content], 0
        )

    def matched(self, identity: Identity, tokens: bytes) -> dict[Holder, int]:
        matches = self._index.match([identity], tokens, 0.0).matches
        return {holder: match.blocks for holder, match in matches.items()}


@functools.cache
def _questions(name: str) -> Sequence[tuple[int, Identity, bytes]]:
    """Every different prompt of a recording, and what sets it apart."""
    asked: dict[tuple[Identity, bytes], int] = {}
    for request in make.captured(name, "requests"):
        for tokens in request.get("prompt_token_ids") or ():
            identity = Identity("tiny", request["lora"], request["cache_salt"])
            kind = ADAPTED if identity.lora else SALTED if identity.salt else PLAIN
            asked[identity, pack(tokens)] = kind
    return [(kind, identity, tokens) for (identity, tokens), kind in asked.items()]


@functools.cache
def _original(name: str) -> Sequence[Sequence[dict[Holder, int]]]:
    """After each message, the answer to each question, from the recording as it is."""
    heard, answers = Heard(None), []
    for line in make.captured(name, "frames"):
        heard.hear(line)
        answers.append([heard.matched(identity, ids) for _, identity, ids in _questions(name)])
    return answers


@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_every_layout_gives_the_matches_of_the_recording(layout: Layout, name: str) -> None:
    other, credited = Heard(layout), 0
    for line, answers in zip(make.captured(name, "frames"), _original(name), strict=True):
        other.hear(line)
        for (_, identity, tokens), expected in zip(_questions(name), answers, strict=True):
            credited += sum(expected.values())
            _compare(layout, identity, expected, other.matched(identity, tokens))
    assert credited
    for feed in other.feeds.values():
        assert (feed.rejected, feed.trust) == ({}, Trust.EXACT)


def _compare(
    layout: Layout, identity: Identity, expected: dict[Holder, int], found: dict[Holder, int]
) -> None:
    is_told = (layout.tells_adapter or not identity.lora) and (
        layout.tells_salt or not identity.salt
    )
    # Without an adapter or a salt, blocks of one may look like this request's.
    looks_alike = (layout.hides_adapter and not identity.lora) or (
        not layout.tells_salt and not identity.salt
    )
    if not is_told:
        assert found == {}  # nobody can say whose such blocks are, so they are nobody's
    elif looks_alike:
        assert all(found.get(holder, 0) >= blocks for holder, blocks in expected.items())
    else:
        assert found == expected


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
def test_every_form_of_a_batch_gives_the_matches_of_the_recording(batch: Any) -> None:
    current, other = Heard(None), Heard(None)
    (*_, last) = _questions("bs16_sha256_full")
    for line in make.captured("bs16_sha256_full", "frames"):
        current.hear(line)
        topic, number, content = make.captured_frames(line)
        if not other.feeds:
            other.hear(line)
            continue
        (feed,) = other.feeds.values()
        content = msgspec.msgpack.encode(batch(*msgspec.msgpack.decode(content)))
        feed.receive([topic, number, content], 0.0)
        assert other.matched(*last[1:]) == current.matched(*last[1:])
    for _, identity, tokens in _questions("bs16_sha256_full"):
        assert other.matched(identity, tokens) == current.matched(identity, tokens)
    (feed,) = other.feeds.values()
    assert (feed.rejected, feed.trust) == ({}, Trust.EXACT)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_what_a_layout_cannot_tell_is_what_its_table_says(layout: Layout) -> None:
    """The recording has an adapter and a salt, so an unstated gap would show."""
    heard = Heard(layout)
    kinds: dict[int, int] = {PLAIN: 0, SALTED: 0, ADAPTED: 0}
    for line in make.captured("bs16_sha256_full", "frames"):
        heard.hear(line)
        for kind, identity, tokens in _questions("bs16_sha256_full"):
            kinds[kind] = max(kinds[kind], *heard.matched(identity, tokens).values(), 0)
    assert kinds[PLAIN] > 5
    assert bool(kinds[SALTED]) is layout.tells_salt
    assert bool(kinds[ADAPTED]) is layout.tells_adapter
