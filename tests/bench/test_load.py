"""The client and the engines it talks to, without a router between them."""

from __future__ import annotations

import urllib.request

import pytest

from bench import engine, prompts
from bench.load import Load, LoadError, Outcome, run


def load(address: engine.Address, bodies: list[bytes], **fields: object) -> Load:
    host, port = address
    return Load(
        **{  # type: ignore[arg-type]
            "host": host,
            "port": port,
            "path": prompts.COMPLETIONS,
            "bodies": bodies,
            "connections": 2,
            **fields,
        }
    )


def test_every_request_is_answered_and_timed() -> None:
    bodies = [prompts.completion(engine.MODEL, 20, seed) for seed in range(10)]
    with engine.engines(["127.0.0.1"]) as (addresses, _):
        outcome = run(load(addresses[0], bodies))
    assert len(outcome.latencies_s) == 10
    assert 0 < outcome.quantile_ms(0.5) <= outcome.quantile_ms(0.95) <= outcome.seconds * 1e3


def test_a_body_larger_than_one_read_is_taken_in_whole() -> None:
    body = prompts.completion(engine.MODEL, 100_000, 1)
    with engine.engines(["127.0.0.1"]) as (addresses, _):
        assert len(run(load(addresses[0], [body, body])).latencies_s) == 2


def test_a_rate_spreads_the_requests() -> None:
    bodies = [prompts.completion(engine.MODEL, 20, seed) for seed in range(10)]
    with engine.engines(["127.0.0.1"]) as (addresses, _):
        assert run(load(addresses[0], bodies, rate=50.0)).seconds > 0.05


def test_a_streamed_answer_takes_its_time_and_has_its_tokens() -> None:
    body = prompts.completion(engine.MODEL, 20, 1, stream=True, max_tokens=300)
    with engine.engines(["127.0.0.1"], engine.Behaviour(stream_s=0.2)) as (addresses, _):
        assert run(load(addresses[0], [body])).seconds >= 0.2
        host, port = addresses[0]
        request = urllib.request.Request(f"http://{host}:{port}{prompts.COMPLETIONS}", body)
        with urllib.request.urlopen(request) as answer:
            text = answer.read()
    assert text.count(b'"text":" a"') == 300
    assert b'"completion_tokens":300' in text
    assert text.endswith(b"data: [DONE]\n\n")


def test_an_engine_shows_the_recorded_page() -> None:
    with engine.engines(["127.0.0.1"]) as ([(host, port)], _):
        with urllib.request.urlopen(f"http://{host}:{port}/metrics") as answer:
            assert b"vllm:num_requests_waiting" in answer.read()
        with urllib.request.urlopen(f"http://{host}:{port}/v1/models") as answer:
            assert b'"tiny"' in answer.read()


def test_nobody_listening_is_an_error() -> None:
    with engine.engines(["127.0.0.1"]) as (addresses, _):
        pass
    with pytest.raises(LoadError, match="Connect"):
        run(load(addresses[0], [b"{}"]))


def test_an_answer_that_is_not_200_is_an_error() -> None:
    with engine.engines(["127.0.0.1"]) as (addresses, _), pytest.raises(LoadError, match="404"):
        run(load(addresses[0], [b"{}"], path="/nowhere"))


def test_no_answer_in_time_is_an_error() -> None:
    body = prompts.completion(engine.MODEL, 20, 1, stream=True, max_tokens=1)
    with engine.engines(["127.0.0.1"]) as (addresses, _), pytest.raises(LoadError, match="Timeout"):
        run(load(addresses[0], [body], timeout_s=0.2))


def test_quantiles_are_latencies_that_were_seen() -> None:
    outcome = Outcome(1.0, [i / 1000 for i in range(101)])
    assert outcome.quantile_ms(0.5) == pytest.approx(50)
    assert outcome.quantile_ms(0.95) == pytest.approx(95)
    assert outcome.rate == 101
