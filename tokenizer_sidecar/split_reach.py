"""Which characters a split pattern can match side by side, and what it looks at beyond a match.

A match is a walk through the pattern's tree, one character set after the other. Two characters can
be neighbours in a piece only if some set with the first can be followed by a set with the second.
That takes in walks that do not end in a match, which errs on the safe side.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from tokenizer_sidecar.char_sets import CharSet, none
from tokenizer_sidecar.split_syntax import Alternative, Chars, Choice, Node, Repeat, Series


class Reach(msgspec.Struct, frozen=True, eq=False):
    """
    Attributes:
        pairs: Sets that can match one behind the other.
        looks: Sets behind which the pattern looks whether a character of another set follows.
    """

    pairs: Sequence[tuple[CharSet, CharSet]]
    looks: Sequence[tuple[CharSet, CharSet]]

    def joined(
        self, lefts: Sequence[npt.NDArray[np.intp]], rights: Sequence[npt.NDArray[np.intp]]
    ) -> npt.NDArray[np.bool_]:
        """For groups of code points: whether a piece may depend on both sides of such a place."""
        found = np.zeros((len(lefts), len(rights)), dtype=np.bool_)
        for left, right in (*self.pairs, *self.looks):
            before = np.array([left[group].any() for group in lefts], dtype=np.bool_)
            behind = np.array([right[group].any() for group in rights], dtype=np.bool_)
            found |= np.outer(before, behind)
        return found


def reach(alternatives: Sequence[Alternative]) -> Reach:
    """What there is in a pattern."""
    pairs: list[tuple[CharSet, CharSet]] = []
    looks: list[tuple[CharSet, CharSet]] = []
    for i, alternative in enumerate(alternatives):
        edge = _edge(alternative.body, pairs)
        if alternative.look is not None:
            hidden = _decided_before(alternatives[:i], alternative.body)
            looks += [(last & ~hidden, alternative.look.members) for last in edge.last]
    return Reach(pairs, looks)


def singles(node: Node) -> tuple[bool, CharSet]:
    """Whether the node matches the empty text, and the single characters it matches."""
    match node:
        case Chars(members=members):
            return False, members
        case Choice(options=options):
            found = [singles(option) for option in options]
            return any(empty for empty, _ in found), _union([alone for _, alone in found])
        case Repeat(item=item, least=least):
            empty, alone = singles(item)
            return least == 0 or empty, alone if least <= 1 or empty else none()
        case Series(items=items):
            parts = [singles(item) for item in items]
            needed = [i for i, (empty, _) in enumerate(parts) if not empty]
            chosen = range(len(parts)) if not needed else needed if len(needed) == 1 else ()
            return not needed, _union([parts[i][1] for i in chosen])


class _Edge(msgspec.Struct, frozen=True, eq=False):
    """Whether a node may be empty, and the sets it can begin and end with."""

    empty: bool
    first: list[CharSet]
    last: list[CharSet]


def _edge(node: Node, pairs: list[tuple[CharSet, CharSet]]) -> _Edge:
    match node:
        case Chars(members=members):
            return _Edge(False, [members], [members])
        case Choice(options=options):
            found = [_edge(option, pairs) for option in options]
            return _Edge(
                any(edge.empty for edge in found),
                [members for edge in found for members in edge.first],
                [members for edge in found for members in edge.last],
            )
        case Repeat(item=item, least=least, most=most):
            edge = _edge(item, pairs)
            if most is None or most > 1:
                pairs += [(last, first) for last in edge.last for first in edge.first]
            return _Edge(edge.empty or least == 0, edge.first, edge.last)
        case Series(items=items):
            return _series([_edge(item, pairs) for item in items], pairs)


def _series(edges: Sequence[_Edge], pairs: list[tuple[CharSet, CharSet]]) -> _Edge:
    whole = _Edge(True, [], [])
    for edge in edges:
        pairs += [(last, first) for last in whole.last for first in edge.first]
        whole = _Edge(
            whole.empty and edge.empty,
            [*whole.first, *edge.first] if whole.empty else whole.first,
            [*whole.last, *edge.last] if edge.empty else edge.last,
        )
    return whole


def _decided_before(earlier: Sequence[Alternative], body: Node) -> CharSet:
    """Last characters of a run with which the alternative is never reached.

    `\\s*[\\r\\n]+` before `\\s+(?!\\S)` is the case: a run of space that ends in a newline is
    matched by the first, so the second does not get to look at what follows.
    """
    hidden = none()
    if not (isinstance(body, Repeat) and isinstance(body.item, Chars)):
        return hidden
    for alternative in earlier:
        match alternative:
            case Alternative(
                body=Series(
                    items=(
                        Repeat(item=Chars(members=lead), least=0, most=None, possessive=False),
                        Repeat(item=Chars(members=end), least=1, most=None),
                    )
                ),
                look=None,
            ) if _covers(lead, body.item.members):
                hidden |= end
            case _:
                pass
    return hidden


def _covers(larger: CharSet, smaller: CharSet) -> bool:
    return not (smaller & ~larger).any()


def _union(sets: Sequence[CharSet]) -> CharSet:
    found = none()
    for members in sets:
        found |= members
    return found
