from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509

from warmroute.tls import self_signed


def test_key_and_certificate_belong_together_and_last(tmp_path: Path) -> None:
    key, certificate = self_signed()
    (tmp_path / "key").write_bytes(key)
    (tmp_path / "certificate").write_bytes(certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
    read = x509.load_pem_x509_certificate(certificate)
    assert read.not_valid_before_utc < datetime.now(UTC)
    assert read.not_valid_after_utc > datetime.now(UTC) + timedelta(days=365)


def test_each_router_has_its_own() -> None:
    assert self_signed()[0] != self_signed()[0]
