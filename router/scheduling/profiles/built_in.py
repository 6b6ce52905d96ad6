"""disagg-headers-handler and prefill-header-handler: their work is the profile handler's now."""

from __future__ import annotations

import msgspec


class BuiltInHeaders(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Accepted; the handler with the stages sets the headers by itself.

    Attributes:
        prefill_profile: Accepted; has no effect.
        encode_profile: Accepted; has no effect.
    """

    prefill_profile: str = "prefill"
    encode_profile: str = "encode"
