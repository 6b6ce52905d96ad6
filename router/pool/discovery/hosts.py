"""Which addresses a hostname has, and what the endpoints at them are called.

Every address is an endpoint of its own, as behind a headless service. The first one is called as in
the file, others get their address as a suffix. An address keeps its name while the hostname has
it: an endpoint that is renamed would lose all that is known of its cache. Where nobody has the
plain name any more, the next new address gets it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Named = Mapping[str, str]
"""IP address -> suffix of the endpoint's name, in the order the addresses came."""


def renewed(before: Named, found: Sequence[str]) -> Named:
    """What a hostname has now; what it had before where it does not resolve.

    Addresses of one family count: those of IPv4, if there are any.
    """
    if not found:
        return before
    family = [a for a in found if ":" not in a] or found
    named = {address: suffix for address, suffix in before.items() if address in family}
    for address in family:
        if address not in named:
            plain_is_taken = "" in named.values()
            named[address] = f"-{address}" if plain_is_taken else ""
    return named
