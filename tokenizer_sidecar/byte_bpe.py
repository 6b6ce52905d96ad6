"""A byte-level vocabulary in tiktoken's form, where both give the same ids for every text.

tiktoken joins any two neighbours whose bytes together are an entry, lowest rank first, and takes a
piece that is an entry as it is. The tokenizers library joins only the pairs of its list. Let every
entry be put through the library's model alone, by merges only:

    one token comes out     it is made by one pair only, that of the last step, in any text: what
                            happens between two places nothing is joined across does not depend on
                            what lies outside of them. So no unlisted pair ever makes it.
    two                     tiktoken would join them, the library does not
    three or more           no two neighbours ever make it

Entries that do not come out as themselves are never made; they are left out, or, where whole pieces
are looked up first (ignore_merges), kept for that if three or more come out. With all entries
passing, the same pairs are joined in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
from tokenizers import models

from tokenizer_sidecar.errors import Unproven
from tokenizer_sidecar.tokenizer_json import BpeModel


class Ranks(msgspec.Struct, frozen=True, eq=False):
    """
    Attributes:
        by_bytes: Bytes of an entry to its rank.
        ids: Rank to id.
    """

    by_bytes: Mapping[bytes, int]
    ids: npt.NDArray[np.uint32]


def ranks(model: BpeModel) -> Ranks:
    """Raises Unproven."""
    pairs = model.pairs()
    made = _order(pairs)
    entries = [entry for entry in model.vocab if _SPELLING.fullmatch(entry)]
    alone = models.BPE(model.vocab, pairs)
    kept: list[tuple[int, int, str]] = []
    for entry in entries:
        id_ = model.vocab[entry]
        count = _parts(alone, entry, id_)
        if count == 2 and model.ignore_merges:
            raise Unproven(f"the entry {entry!r} is reached by no merge of its own")
        if count == 1 or model.ignore_merges:
            kept.append((_when(entry, made), id_, entry))
    return _numbered([entry for *_, entry in sorted(kept)], model.vocab)


def _when(entry: str, made: Mapping[str, int]) -> int:
    """Single bytes first, as they are never made; then by merge; last what no merge makes."""
    return -1 if len(entry) == 1 else made.get(entry, len(made))


def _order(pairs: Sequence[tuple[str, str]]) -> dict[str, int]:
    """When each entry is made. Raises Unproven where that depends on the pair."""
    made: dict[str, int] = {}
    for left, right in pairs:
        whole = left + right
        if made.setdefault(whole, len(made)) != len(made) - 1:
            raise Unproven(f"merges to {whole!r} are apart from each other")
    return made


def _parts(alone: models.BPE, entry: str, id_: int) -> int:
    """How many tokens the entry becomes by merges only."""
    tokens = alone.tokenize(entry)
    if len(tokens) == 1 and tokens[0].id != id_:
        raise Unproven(f"the entry {entry!r} does not become itself")
    return len(tokens)


def _numbered(entries: Sequence[str], vocab: Mapping[str, int]) -> Ranks:
    by_bytes = {
        entry.translate(_TO_BYTES).encode("latin-1"): rank for rank, entry in enumerate(entries)
    }
    if not all(bytes([value]) in by_bytes for value in range(256)):
        raise Unproven("some bytes have no id")
    return Ranks(by_bytes, np.array([vocab[entry] for entry in entries], dtype=np.uint32))


def _byte_characters() -> Mapping[int, str]:
    """Byte to the character that stands for it in the vocabulary: itself where it can be seen, and
    the others, in order, from U+0100 on."""
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [value for value in range(256) if value not in seen]
    return dict(zip(seen, map(chr, seen), strict=True)) | {
        value: chr(0x100 + i) for i, value in enumerate(hidden)
    }


_BYTES = _byte_characters()
_TO_BYTES = {ord(character): chr(value) for value, character in _BYTES.items()}
_SPELLING = re.compile(f"[{re.escape(''.join(_BYTES.values()))}]+")
"""Other entries, like added tokens, match no text."""
