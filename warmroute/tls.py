"""Keys and certificates: a self-signed one, as gateways that verify nothing expect, and a check."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class BadPair(Exception):
    """A key and a certificate that cannot be used together."""


VALID_FOR = timedelta(days=3650)


def self_signed() -> tuple[bytes, bytes]:
    """A new key and its certificate, both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "warmroute")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + VALID_FOR)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return private, certificate.public_bytes(serialization.Encoding.PEM)


def check_pair(key: bytes, certificate: bytes) -> None:
    """Both PEM; of a chain the first certificate counts. Raises BadPair."""
    try:
        private = serialization.load_pem_private_key(key, None)
        public = x509.load_pem_x509_certificates(certificate)[0].public_key()
    except (ValueError, TypeError) as error:
        raise BadPair(f"cannot read the key or the certificate: {error}") from error
    if private.public_key() != public:
        raise BadPair("the certificate is not the key's")
