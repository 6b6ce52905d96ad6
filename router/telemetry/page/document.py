"""The page itself, and the headers that keep everything foreign out of it. IO (it reads a file).

One file with its style and its script inside. The policy names exactly these two by their hashes,
allows requests to this server only and forbids the script to make markup of text.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec


class Document(msgspec.Struct, frozen=True):
    """
    Attributes:
        body: HTML.
        headers: What it is sent with.
    """

    body: bytes
    headers: Mapping[str, str]


@cache
def document() -> Document:
    """The page, read once."""
    text = (files("router.telemetry.page") / "page.html").read_text(encoding="utf-8")
    headers = {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": policy(text),
        "cache-control": "no-cache",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }
    return Document(text.encode(), headers)


def policy(text: str) -> str:
    """The content security policy that lets this document run, and nothing else."""
    rules = {
        "default-src": "'none'",
        "script-src": _hash_of("script", text),
        "style-src": _hash_of("style", text),
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash_of(tag: str, text: str) -> str:
    """As a policy names the content of the one such element."""
    (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return f"'sha256-{digest}'"
