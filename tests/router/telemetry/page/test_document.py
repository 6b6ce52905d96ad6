from __future__ import annotations

import base64
import hashlib
import re

import pytest

from router.telemetry.page.document import document, policy

TEXT = document().body.decode()
(SCRIPT,) = re.findall(r"<script>(.*?)</script>", TEXT, re.DOTALL)


def hash_of(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_the_policy_lets_exactly_this_script_run() -> None:
    told = document().headers["content-security-policy"]
    assert f"script-src 'sha256-{hash_of(SCRIPT)}';" in told
    assert "default-src 'none'" in told
    assert "unsafe" not in told


def test_the_policy_follows_the_content() -> None:
    one = policy("<style>a</style><script>b</script>")
    assert f"script-src 'sha256-{hash_of('b')}'" in one
    assert f"style-src 'sha256-{hash_of('a')}'" in one


def test_nothing_is_loaded_from_elsewhere() -> None:
    links = re.findall(r"""(?:href|src)=["']([^"']+)""", TEXT)
    assert [link for link in links if not link.startswith("data:")] == []
    assert set(re.findall(r"https?://[^\s\"'`)]+", TEXT)) == {"http://www.w3.org/2000/svg"}
    assert "@import" not in TEXT
    assert "url(" not in TEXT


@pytest.mark.parametrize(
    "way", ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("]
)
def test_text_never_becomes_markup_or_code(way: str) -> None:
    assert way not in SCRIPT


def test_the_policy_would_stop_style_and_handlers_inside_tags() -> None:
    tags = re.findall(r"<[a-z][^>]*>", TEXT.replace(SCRIPT, ""))
    assert [tag for tag in tags if re.search(r"\s(style|on[a-z]+)=", tag)] == []
