"""What one decode sidecar is."""

from __future__ import annotations

from pathlib import Path

import msgspec

from pd_sidecar.allow import Address


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """
    Attributes:
        host: Address the proxy binds.
        port: Its port; rank r of several listens on this + r.
        engine_host: Where the decode engine is.
        engine_port: Its port; rank r has this + r.
        ranks: Data-parallel ranks of the engine that have ports of their own.
        connector: How a cache is handed over: a name in `pd_sidecar.connectors.table`.
        encodes: Media are encoded where the request says.
        bootstrap_port: Port where SGLang's prefill engines hand caches over.
        endpoints: File whose prefill and encode engines may be called; followed as it changes.
        allowed: Further engines that may be called.
        open: Any engine may be called.
        sample_prefillers: Of several prefill engines in the header take one by chance, not the
            first.
        prefill_timeout_s: What a prefill may take.
        prefill_retries: How often a prefill is asked for again after a 502, 503 or 504.
        prefill_backoff_s: Time before that.
        max_body_bytes: Largest body that is prefilled elsewhere or read at all.
        metrics_port: Port of the proxy's own /metrics; None: none.
    """

    host: str = "0.0.0.0"
    port: int = 8000
    engine_host: str = "127.0.0.1"
    engine_port: int = 8200
    ranks: int = 1
    connector: str = "nixlv2"
    encodes: bool = False
    bootstrap_port: int = 8998
    endpoints: Path | None = None
    allowed: tuple[Address, ...] = ()
    open: bool = False
    sample_prefillers: bool = False
    prefill_timeout_s: float = 120.0
    prefill_retries: int = 0
    prefill_backoff_s: float = 0.2
    max_body_bytes: int = 64 * 1024 * 1024
    metrics_port: int | None = None
