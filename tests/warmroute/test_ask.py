from __future__ import annotations

import pytest

from tests.support.ports import free_port
from tests.warmroute.answering import answering
from warmroute import ask
from warmroute.errors import StartError


def test_a_page_is_read_with_its_query() -> None:
    with answering({"/a?limit=3": (200, b"here")}) as url:
        assert ask.get(f"{url}/", "/a", limit="3") == b"here"


def test_what_is_not_there_is_none() -> None:
    with answering({}) as url:
        assert ask.get(url, "/a") is None


def test_a_refusal_is_one_line_with_its_reason() -> None:
    with answering({"/a": (403, b"not here")}) as url, pytest.raises(StartError) as refused:
        ask.get(url, "/a")
    assert str(refused.value) == f"{url}/a: 403 not here"


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}", "nonsense"])
def test_nobody_there_is_one_line(url: str) -> None:
    with pytest.raises(StartError, match=r"/debug/doctor: "):
        ask.get(url.format(port=free_port()), "/debug/doctor")
