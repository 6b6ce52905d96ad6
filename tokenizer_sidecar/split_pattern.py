"""How a tokenizer splits text before byte-pair encoding, as one pattern that tiktoken can use.

A pre-tokenizer is a list of splits, each applied to the pieces of the one before. All but the last
must isolate runs of one set of characters. Then no piece has characters of two sets, and one
pattern does the same: the last split once for each set, with nothing but that set's characters.
Text that no split matches stays a piece in the tokenizers library and is lost in tiktoken, so the
pattern ends with an alternative for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import msgspec

from tokenizer_sidecar.char_sets import CharSet, everything, rust_class
from tokenizer_sidecar.errors import Unproven
from tokenizer_sidecar.split_reach import Reach, reach, singles
from tokenizer_sidecar.split_syntax import Alternative, Chars, Choice, Look, Node, Repeat, Series


class SplitPattern(msgspec.Struct, frozen=True, eq=False):
    """
    Attributes:
        alternatives: In the order they are tried.
        rests: Characters that may be left over by all of them; no piece has those of two sets.
    """

    alternatives: tuple[Alternative, ...]
    rests: tuple[CharSet, ...]

    def source(self) -> str:
        """The pattern in tiktoken's syntax."""
        # Neighbours that do not look ahead stand in a group of their own: the engine runs such a
        # group as one automaton, and tries alternatives one by one elsewhere.
        groups = groupby(self.alternatives, key=lambda alternative: alternative.look is None)
        tried = "|".join(f"(?:{'|'.join(map(_alternative, group))})" for _, group in groups)
        left_over = [f"(?:(?!{tried}){rust_class(members)})+" for members in self.rests]
        return "|".join([tried, *left_over])

    def reach(self) -> Reach:
        """Which characters can be neighbours in a piece."""
        left_over = [Alternative(Repeat(Chars(members), 1, None)) for members in self.rests]
        return reach([*self.alternatives, *left_over])


def combine(splits: Sequence[Sequence[Alternative]]) -> SplitPattern:
    """One pattern for splits that are applied one after the other. Raises Unproven."""
    *runs, last = splits
    alternatives: list[Alternative] = []
    rests: list[CharSet] = []
    others = everything()
    for run, most in map(_isolated, runs):
        if (run & ~others).any():
            raise Unproven("several splits isolate the same characters")
        others &= ~run
        within = _within(last, run)
        if most is None:
            alternatives += within
            rests.append(_left_over(within, run))
        elif not within:
            alternatives.append(Alternative(Repeat(Chars(run), 1, most)))
        else:
            raise Unproven("a later split divides what an earlier one isolated")
    within = _within(last, others)
    rests.append(_left_over(within, others))
    return SplitPattern((*alternatives, *within), tuple(rest for rest in rests if rest.any()))


def _isolated(split: Sequence[Alternative]) -> tuple[CharSet, int | None]:
    """The set whose runs the split isolates, and how long a run may be."""
    match split:
        case [Alternative(body=Repeat(item=Chars(members=members), least=1, most=most), look=None)]:
            return members, most
        case _:
            raise Unproven("several splits, and not all of the first ones isolate runs of a class")


def _within(split: Sequence[Alternative], allowed: CharSet) -> list[Alternative]:
    """The split for texts that have only these characters."""
    narrowed = (_narrowed_alternative(alternative, allowed) for alternative in split)
    return [alternative for alternative in narrowed if alternative is not None]


def _left_over(split: Sequence[Alternative], allowed: CharSet) -> CharSet:
    """Characters that are not matched wherever they stand. Raises Unproven."""
    rest = allowed
    for alternative in split:
        nullable, alone = singles(alternative.body)
        if nullable:
            raise Unproven("the split pattern matches the empty text")
        if alternative.look is None:
            rest = rest & ~alone
    return rest


def _narrowed_alternative(alternative: Alternative, allowed: CharSet) -> Alternative | None:
    body = _narrowed(alternative.body, allowed)
    if body is None:
        return None
    if alternative.look is None:
        return Alternative(body)
    look = Look(alternative.look.members & allowed, alternative.look.negative)
    if look.members.any():
        return Alternative(body, look)
    # Nothing is left to look for: never there, so a negative look always holds.
    return Alternative(body) if look.negative else None


def _narrowed(node: Node, allowed: CharSet) -> Node | None:
    """What is left of the node where the text has only these characters; None if nothing."""
    match node:
        case Chars(members=members):
            kept = members & allowed
            return Chars(kept) if kept.any() else None
        case Series(items=items):
            parts = [(item, _narrowed(item, allowed)) for item in items]
            if any(part is None and not singles(item)[0] for item, part in parts):
                return None
            left = tuple(part for _, part in parts if part is not None)
            return None if not left else left[0] if len(left) == 1 else Series(left)
        case Choice(options=options):
            some = tuple(o for o in (_narrowed(option, allowed) for option in options) if o)
            return None if not some else some[0] if len(some) == 1 else Choice(some)
        case Repeat(item=item):
            inner = _narrowed(item, allowed)
            if inner is None:
                return None
            return Repeat(inner, node.least, node.most, node.possessive)


def _alternative(alternative: Alternative) -> str:
    look = alternative.look
    if look is None:
        return _source(alternative.body)
    return (
        f"{_source(alternative.body)}(?{'!' if look.negative else '='}{rust_class(look.members)})"
    )


def _source(node: Node) -> str:
    match node:
        case Chars(members=members):
            return rust_class(members)
        case Series(items=items):
            return "".join(map(_source, items))
        case Choice(options=options):
            return f"(?:{'|'.join(map(_source, options))})"
        case Repeat(item=item, least=least, most=most):
            inner = _source(item) if isinstance(item, Chars) else f"(?:{_source(item)})"
            return f"{inner}{_quantifier(least, most)}{'+' if node.possessive else ''}"


def _quantifier(least: int, most: int | None) -> str:
    signs = {(0, 1): "?", (0, None): "*", (1, None): "+"}
    return signs.get((least, most)) or f"{{{least},{'' if most is None else most}}}"
