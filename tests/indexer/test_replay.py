"""Replays: how answers are judged, and when the engine is asked again or given up."""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Iterator

import pytest

from indexer.block import Trust
from indexer.events import Reason
from indexer.replay import MAX_FRUITLESS, Replay, Step
from tests.indexer import make
from tests.indexer.make import TOPIC
from tests.indexer.replaying import END, OLD_END, Bench, Engine, connected


def test_a_history_whose_beginning_is_gone_stays_partial() -> None:
    engine = Engine(buffer=2)
    for block in (0, 1, 2):
        engine.publish(block)
    bench = connected(Bench(engine))
    assert (bench.credited(), bench.trust) == ({1, 2}, Trust.PARTIAL)
    assert bench.feed.stats.truncated == 1
    bench.hear(engine.publish(3))
    assert (bench.credited(), bench.trust) == ({1, 2, 3}, Trust.PARTIAL)


def test_a_hole_in_an_answer_is_asked_for_again() -> None:
    engine = Engine()
    for block in (0, 1, 2, 3):
        engine.publish(block)
    bench = Bench(engine)
    bench.feed.connected()
    bench.begin()
    del bench.answers[1], bench.answers[1]
    bench.catch_up()
    assert (bench.credited(), bench.trust) == ({0, 1, 2, 3}, Trust.EXACT)
    assert bench.asked == [0, 1, 4]


@pytest.mark.parametrize("with_end", [True, False], ids=["end marker", "silence"])
def test_a_lost_tail_is_asked_for_again(with_end: bool) -> None:
    engine = Engine()
    for block in (0, 1, 2):
        engine.publish(block)
    bench = Bench(engine)
    bench.feed.connected()
    bench.begin()
    bench.answers = deque([bench.answers[0], *([END] if with_end else [])])
    bench.catch_up()
    assert (bench.credited(), bench.trust) == ({0, 1, 2}, Trust.EXACT)


def test_an_engine_that_never_answers_is_given_up_and_heard_as_it_comes() -> None:
    bench = Bench()
    bench.feed.connected()
    bench.begin()
    bench.hear(bench.engine.publish(0), bench.engine.publish(1))
    bench.engine.publish(2)
    bench.hear(bench.engine.publish(3))
    for _ in range(MAX_FRUITLESS):
        assert bench.replay is not None
        bench.answers.clear()
        bench.step(bench.replay.silent())
    assert bench.replay is None
    while bench.feed.hear_waiting():
        pass
    assert (bench.credited(), bench.trust) == ({0, 1, 3}, Trust.PARTIAL)
    assert (bench.feed.catch_up.wants, bench.feed.stats.replays_failed) == (None, 1)
    bench.hear(bench.engine.publish(4))
    assert bench.credited() == {0, 1, 3, 4}
    bench.feed.catch_up.may_ask_again()
    assert bench.feed.catch_up.wants == 0
    bench.catch_up()
    assert (bench.credited(), bench.trust) == ({0, 1, 2, 3, 4}, Trust.EXACT)


def test_answers_without_topics_go_to_the_model_of_the_stream() -> None:
    engine = Engine()
    engine.publish(0)
    bench = Bench(engine, base_model="tiny")
    bench.feed.connected()
    for _ in range(2):
        bench.replay = bench.replay or Replay(bench.feed)
        bench.ask()
        for answer in [[b"", *message[1:]] for message in engine.sent[bench.asked[-1] :]]:
            assert bench.replay.receive(answer) is Step.READ
        step = bench.replay.receive(OLD_END)
    assert step is Step.END
    bench.feed.hear_waiting()
    assert (bench.credited(), bench.trust) == ({0}, Trust.EXACT)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ([], Reason.BAD_FRAMES),
        ([b"", b"x"], Reason.BAD_FRAMES),
        ([b"", b"", b"", b"x", b"y"], Reason.BAD_FRAMES),
        ([b"", TOPIC, b"\0\0", b"x"], Reason.BAD_SEQUENCE),
    ],
)
def test_junk_among_answers_is_counted_and_changes_nothing(
    answer: list[bytes], reason: Reason
) -> None:
    engine = Engine()
    engine.publish(0)
    bench = Bench(engine)
    bench.feed.connected()
    bench.begin()
    bench.answers.appendleft(answer)
    bench.catch_up()
    assert (bench.credited(), bench.trust) == ({0}, Trust.EXACT)
    assert bench.feed.rejected == {reason: 1}


def _exchanges(name: str) -> Iterator[tuple[int, list[list[bytes]]]]:
    """Recorded requests of DEALER sockets, and what came back."""
    lines = list(make.captured(name, "replay"))
    for request in lines:
        if request["dir"] == "send" and request["socket"] == "DEALER":
            sent = [base64.b64decode(frame) for frame in request["frames"]]
            if len(sent) == 2:
                yield (
                    int.from_bytes(sent[1], "big"),
                    [
                        [base64.b64decode(frame) for frame in line["frames"]]
                        for line in lines
                        if line["dir"] == "recv" and line["exchange"] == request["exchange"]
                    ],
                )


@pytest.mark.parametrize("name", ["bs16_dp2", "bs16_sha256_full", "bs16_sha256cbor_bytes"])
def test_recorded_answers_are_understood(name: str) -> None:
    seen = 0
    for start, answers in _exchanges(name):
        bench = Bench()
        bench.feed.catch_up.wants = start
        bench.replay = Replay(bench.feed)
        assert bench.replay.request() == [b"", start.to_bytes(8, "big")]
        steps = [bench.replay.receive(answer) for answer in answers]
        if steps:
            seen += 1
            assert steps[:-1] == [Step.READ] * (len(steps) - 1)
            assert bench.feed.stats.replayed == len(answers) - 1
            assert bench.feed.rejected == {}
    assert seen
