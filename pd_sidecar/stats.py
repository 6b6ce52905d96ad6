"""What the proxy counts."""

from __future__ import annotations

from collections import Counter

from pd_sidecar.connectors.types import Outcome


class Stats:
    """
    Attributes:
        prefills: Outcome -> requests that named a prefill engine.
        encoded: Media items that encoders computed.
        not_encoded: Those that none did.
        alone: Requests that named none.
        denied: Requests that named an engine that may not be called.
        failed: Requests that the proxy itself answered with an error, but for those denied.
        listing_failures: Times the endpoints file could not be used.
    """

    def __init__(self) -> None:
        self.prefills: Counter[Outcome] = Counter()
        self.encoded = 0
        self.not_encoded = 0
        self.alone = 0
        self.denied = 0
        self.failed = 0
        self.listing_failures = 0
