"""Every body mode, through real Envoy: nothing is lost, nothing waits, and the table is true."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from router.extproc import headers
from router.pool.discovery.schema import ModelRewrite, RewriteTarget
from router.request.usage import Usage
from tests.support import body_modes, http2
from tests.support.body_modes import (
    MODES,
    PROMPT,
    RESPONSE_MODES,
    SHAPES,
    STEERING,
    TRAILERS,
    Seen,
    Shape,
)
from tests.support.processes import until
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
                assert not STEERING.keys() & each.got.headers.keys(), where
    assert body_modes.table(seen) in DOCUMENT.read_text()


async def test_another_model_is_put_in_and_taken_back_wherever_bodies_are_shown(
    tmp_path: Path,
) -> None:
    shape = Shape("POST", "POST", "/v1/completions", (PROMPT[:9], PROMPT[9:]), None, "json")
    async with body_modes.bench(tmp_path, rename_answers=True) as made:
        made.fixture.rules = (ModelRewrite(targets=(RewriteTarget(model_rewrite="target"),)),)
        for mode in MODES:
            for response_mode in RESPONSE_MODES:
                seen = await made.see(mode, response_mode, shape)
                where = f"{mode} {response_mode}: {seen.sequence} {seen.answer}"
                shown = mode not in ("STREAMED", "NONE")
                sent = PROMPT.replace(b'"m"', b'"target"') if shown else PROMPT
                assert seen.got.body == sent, where
                # Under full duplex Envoy takes no wish to see a body that it was not to show.
                hidden = mode == "FULL_DUPLEX_STREAMED" and response_mode == "NONE"
                name = b'"m"' if shown and not hidden else b'"target"'
                answer = b'{"size":%d,"model":%b}' % (len(sent), name)
                assert (seen.answer.status, seen.answer.body) == (200, answer), where
                length = dict(seen.answer.headers).get("content-length")
                assert length in (None, str(len(answer))), where


@pytest.mark.parametrize("sample", [0, 1])
async def test_usage_is_read_wherever_an_answer_is_shown(tmp_path: Path, sample: int) -> None:
    shape = Shape("POST", "POST", "/v1/completions", (PROMPT,))
    async with body_modes.bench(tmp_path, usage_sample=sample) as made:
        for mode in MODES:
            for response_mode in RESPONSE_MODES:
                seen = await made.see(mode, response_mode, shape)
                where = f"{mode} {response_mode} {seen.sequence}"
                assert seen.answer.body == EVENTS, where
                asked = mode not in ("STREAMED", "NONE")
                hidden = mode == "FULL_DUPLEX_STREAMED" and response_mode == "NONE"
                usage = made.fixture.notes.ended_[-1].usage
                assert usage == (Usage(3) if sample and asked and not hidden else None), where


async def test_a_data_plane_that_only_observes_gets_no_word_and_holds_nothing(
    tmp_path: Path,
) -> None:
    async with body_modes.bench(tmp_path, observe=True) as made:
        for shape in SHAPES:
            answer = await http2.send(
                made.port,
                shape.method,
                shape.path,
                authority=body_modes.authority("STREAMED", "STREAMED"),
                headers={"content-type": "application/json"},
                body=shape.body,
                trailers=shape.trailers,
            )
            # Nobody names an endpoint, and Envoy does not ask for one.
            assert answer.status == 503
        await until(lambda: made.recorder.letters[:1] == ["qH"])
        assert all(letter[1].isupper() for letter in made.recorder.letters)
        assert made.fixture.notes.routed_ == []
        assert made.fixture.load.requests == {}


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
