"""Every body mode, through real Envoy: nothing is lost, nothing waits, and the table is true."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from router.extproc import headers
from tests.support import body_modes
from tests.support.body_modes import MODES, RESPONSE_MODES, SHAPES, TRAILERS, Seen
from tests.support.raw_engine import EVENTS

DOCUMENT = Path(__file__).parents[2] / "docs" / "ext_proc.md"


async def observed(folder: Path) -> Mapping[tuple[str, str, str], Seen]:
    async with body_modes.bench(folder) as made:
        return await body_modes.observe(made)


async def test_requests_and_answers_arrive_whole_in_every_combination(tmp_path: Path) -> None:
    seen = await observed(tmp_path)
    assert len(seen) == len(MODES) * len(RESPONSE_MODES) * len(SHAPES)
    for shape in SHAPES:
        for mode in MODES:
            for response_mode in RESPONSE_MODES:
                each = seen[mode, response_mode, shape.name]
                where = f"{mode} {response_mode} {shape.name}: {each.sequence}"
                assert (each.answer.status, each.answer.reset) == (200, False), where
                assert each.got.body == b"".join(shape.body), where
                assert each.got.trailers == (shape.trailers or {}), where
                if shape.answer != "json":
                    assert each.answer.body == EVENTS, where
                trailers = TRAILERS if shape.answer == "trailers" else {}
                assert dict(each.answer.trailers) == trailers, where
                assert headers.DESTINATION in each.got.headers, where
    assert body_modes.table(seen) in DOCUMENT.read_text()


@pytest.mark.parametrize(
    ("letters", "shown"),
    [
        ("qH qh sH sh", "H h / H h"),
        ("qH qh qB qb qB qb qB qb sH sh sB sb sB sb", "H h B b / H h B b"),
        ("qH qB qB qB qh qb qb sH sh", "H B h b / H h"),
        ("qH", "H / "),
    ],
)
def test_what_repeats_is_shown_once(letters: str, shown: str) -> None:
    assert body_modes.sequence(letters.split()) == shown
