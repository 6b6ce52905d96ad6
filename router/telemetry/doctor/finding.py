"""A finding: what is wrong, how one can see it, and what mends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

Value = str | int | float | bool | Sequence[str | int] | Mapping[str, int] | None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """
    Attributes:
        code: Names the kind of trouble; stays the same from release to release.
        about: The endpoint, or the part of the router, that it is about.
        what: One sentence for people.
        evidence: Name -> value; where two things differ, both.
        fix: What to do, in a sentence.
    """

    code: str
    about: str
    what: str
    evidence: Mapping[str, Value]
    fix: str
