from __future__ import annotations

from typing import Any

import msgspec
import pytest

from simulator.errors import ApiError
from simulator.openai import Ask, Kind, parse_ask, parse_json
from tests.simulator.recordings import samples

MESSAGES = [{"role": "user", "content": "Say hi."}]

REFUSED = {
    "err-no-messages": "chat",
    "err-empty-messages": "chat",
    "err-bad-temperature": "chat",
    "err-empty-prompt": "completion",
    "err-max-tokens-zero": "completion",
    "err-cache-salt-empty": "completion",
}


def ask(**fields: Any) -> Ask:
    return parse_ask({"messages": MESSAGES, **fields}, "chat")


@pytest.mark.parametrize(("name", "kind"), REFUSED.items())
def test_a_bad_body_is_refused_as_recorded(name: str, kind: Kind) -> None:
    sample = samples()[name]
    with pytest.raises(ApiError) as refused:
        parse_ask(sample.body, kind)
    assert (refused.value.status, refused.value.body()) == (sample.status, sample.response)


def test_text_that_is_not_json_is_refused_as_recorded() -> None:
    sample = samples()["err-bad-json"]
    with pytest.raises(ApiError) as refused:
        parse_json(sample.body.encode())
    assert (refused.value.status, refused.value.body()) == (sample.status, sample.response)


@pytest.mark.parametrize("raw", [b"[1]", b"3", b'"text"', b"\xff", b""])
def test_a_body_that_is_no_object_is_refused(raw: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        parse_json(raw)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_tokens", "many"),
        ("n", []),
        ("stream", {}),
        ("stop", [1]),
        ("model", 7),
        ("stream_options", 3),
    ],
)
def test_a_field_of_another_type_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ApiError) as refused:
        ask(**{field: value})
    assert refused.value.kind == "Bad Request"
    assert (refused.value.param or "").startswith(f"body.{field}")


@pytest.mark.parametrize("fields", [{"n": 0}, {"max_tokens": -1}, {"stream_options": {}}])
def test_a_value_out_of_range_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as refused:
        ask(**fields)
    assert refused.value.kind == "BadRequestError"


def test_unknown_fields_are_ignored() -> None:
    assert ask(nvext={"x": 1}, logprobs=True) == ask()


def test_a_completion_has_16_tokens_where_nothing_is_said_and_a_chat_no_limit() -> None:
    assert parse_ask({"prompt": "a"}, "completion").limit("completion") == 16
    assert ask().limit("chat") is None


def test_a_chat_takes_its_limit_from_either_field() -> None:
    assert ask(max_tokens=5).limit("chat") == 5
    assert ask(max_tokens=5, max_completion_tokens=7).limit("chat") == 7


def test_a_stop_is_one_string_or_several() -> None:
    assert ask(stop="a").stops == ("a",)
    assert ask(stop=["a", "", "b"]).stops == ("a", "b")
    assert ask().stops == ()


def test_usage_in_each_chunk_needs_usage_at_all() -> None:
    options = {"continuous_usage_stats": True}
    assert not ask(stream=True, stream_options=options).repeats_usage
    both = ask(stream=True, stream_options=options | {"include_usage": True})
    assert both.includes_usage
    assert both.repeats_usage


def test_the_session_is_the_bodys_before_the_headers() -> None:
    everywhere = ask(session_id="body", vllm_xargs={"session_id": "xargs"})
    assert everywhere.session("header") == "body"
    assert msgspec.structs.replace(everywhere, session_id=None).session("header") == "header"
    assert msgspec.structs.replace(everywhere, session_id=None).session(None) == "xargs"
    assert ask().session(None) is None


def test_report_mode_full_is_an_extra_argument() -> None:
    assert ask(vllm_xargs={"kv_cache_report_mode": "full"}).reports_reused
    assert not ask(vllm_xargs={"kv_cache_report_mode": "incremental"}).reports_reused
