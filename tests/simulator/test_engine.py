from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.clock import Timing
from simulator.engine import Engine
from simulator.hashing import Adapter, Hasher, Identity
from simulator.types import FinishReason
from simulator.wire import AllBlocksCleared, BlockRemoved, BlockStored, Event
from tests.simulator import make


def lora(name: str) -> Identity:
    return Identity(Adapter(name, name, 1))


def stored_blocks(events: tuple[Event, ...]) -> list[int]:
    return [len(event.digests) for event in events if isinstance(event, BlockStored)]


def test_a_request_is_answered_token_by_token_up_to_its_limit() -> None:
    results = make.run(make.engine(), make.request(max_tokens=3, answer=[7, 8, 9, 10]))
    outputs = make.outputs(results)
    assert [output.token_id for output in outputs] == [7, 8, 9]
    assert [output.finish_reason for output in outputs] == [None, None, FinishReason.LENGTH]


def test_a_stop_token_is_the_last_token() -> None:
    request = make.request(max_tokens=9, answer=[7, 2, 8], stop_token_ids=[2])
    outputs = make.outputs(make.run(make.engine(), request))
    assert [output.token_id for output in outputs] == [7, 2]
    assert outputs[-1].finish_reason is FinishReason.STOP


def test_an_answer_that_ends_ends_the_request() -> None:
    outputs = make.outputs(make.run(make.engine(), make.request(max_tokens=9, answer=[7])))
    assert [output.token_id for output in outputs] == [7, None]
    assert outputs[-1].finish_reason is FinishReason.STOP


def test_an_answer_ends_where_the_context_does() -> None:
    engine = make.engine(max_model_len=10)
    outputs = make.outputs(make.run(engine, make.request(range(7), max_tokens=100)))
    assert len(outputs) == 3
    assert outputs[-1].finish_reason is FinishReason.LENGTH


def test_a_prompt_is_reused_but_for_its_last_token() -> None:
    engine = make.engine(block_size=4)
    assert make.cached_tokens(make.run(engine, make.request(range(8)))) == 0
    assert make.cached_tokens(make.run(engine, make.request(range(8)))) == 4
    assert make.cached_tokens(make.run(engine, make.request(range(9)))) == 8


def test_generated_tokens_are_reused_except_the_last_one() -> None:
    engine = make.engine(block_size=4)
    answer = list(range(100, 109))
    make.run(engine, make.request(range(3), max_tokens=9, answer=answer))
    follow_up = make.request([*range(3), *answer, 1, 2])
    assert make.cached_tokens(make.run(engine, follow_up)) == 8


def test_requests_of_one_step_share_a_prefix() -> None:
    engine = make.engine(block_size=4)
    first, *others = make.outputs(make.run(engine, *(make.request(range(9)) for _ in range(3))))
    assert first.cached_tokens == 0
    assert [output.cached_tokens for output in others] == [8, 8]


def test_a_request_that_skips_the_lookup_computes_and_stores_all() -> None:
    engine = make.engine(block_size=4)
    make.run(engine, make.request(range(9)))
    queried = engine.counts.queried
    (result,) = make.run(engine, make.request(range(9), skips_lookup=True))
    assert make.cached_tokens([result]) == 0
    assert stored_blocks(result.events) == [2]
    assert engine.counts.queried == queried


def test_report_mode_full_announces_reused_blocks_again() -> None:
    engine = make.engine(block_size=4)
    make.run(engine, make.request(range(9)))
    (result,) = make.run(engine, make.request(range(9), reports_reused=True))
    (event,) = result.events
    assert isinstance(event, BlockStored)
    assert (event.parent, event.token_ids) == (None, tuple(range(8)))
    assert make.cached_tokens([result]) == 8


def test_only_so_many_requests_run_at_once() -> None:
    engine = make.engine(concurrency=2)
    for _ in range(3):
        engine.add(make.request(max_tokens=5), now_s=0)
    engine.schedule(now_s=0)
    assert (engine.running, engine.waiting) == (2, 1)


def test_a_long_prompt_is_computed_in_chunks() -> None:
    engine = make.engine(block_size=4, max_batched_tokens=8)
    results = make.run(engine, make.request(range(18)))
    assert [stored_blocks(result.events) for result in results] == [[2], [2], []]
    assert [len(result.outputs) for result in results] == [0, 0, 1]


def test_a_request_waits_until_its_whole_prompt_fits() -> None:
    engine = make.engine(num_blocks=6, block_size=4, max_batched_tokens=8)
    engine.add(make.request(range(8), max_tokens=8), now_s=0)
    engine.add(make.request(range(50, 66)), now_s=0)
    engine.schedule(now_s=0)
    assert (engine.running, engine.waiting) == (1, 1)


def test_the_youngest_request_loses_its_blocks_when_they_run_out() -> None:
    engine = make.engine(num_blocks=6, block_size=4)
    old = make.request(range(8), request_id="old", max_tokens=6)
    young = make.request(range(50, 58), request_id="young", max_tokens=6)
    results = make.run(engine, old, young)
    ends = [output.request_id for output in make.outputs(results) if output.finish_reason]
    assert ends == ["old", "young"]
    assert engine.counts.preemptions == 1
    finished = [one for result in results for one in result.finished]
    assert [one.preemptions for one in finished] == [0, 1]
    assert [one.output_tokens for one in finished] == [6, 6]


def test_a_preempted_request_keeps_its_tokens_and_what_it_first_reused() -> None:
    engine = make.engine(num_blocks=6, block_size=4)
    old = make.request(range(8), max_tokens=6)
    young = make.request(range(50, 58), request_id="young", max_tokens=6, answer=range(200, 206))
    tokens = [
        output
        for output in make.outputs(make.run(engine, old, young))
        if output.request_id == "young"
    ]
    assert [output.token_id for output in tokens] == list(range(200, 206))
    assert {output.cached_tokens for output in tokens} == {0}
    assert engine.counts.queried == 16


def test_an_adapter_waits_for_a_place_and_others_pass_it() -> None:
    engine = make.engine(max_loras=1)
    for identity in (lora("a"), lora("b"), Identity(), lora("a")):
        engine.add(make.request(max_tokens=2, identity=identity), now_s=0)
    engine.schedule(now_s=0)
    assert engine.running == 3
    assert engine.running_adapters == ("a",)
    assert engine.unfinished_adapters == ("a", "b")


def test_an_abort_frees_the_blocks_after_the_step() -> None:
    engine = make.engine()
    engine.add(make.request(request_id="gone", max_tokens=50), now_s=0)
    engine.schedule(now_s=0)
    engine.abort("gone")
    assert engine.cache.usage > 0
    assert engine.complete(now_s=0).outputs == ()
    assert engine.cache.usage == 0
    assert engine.schedule(now_s=0) is None


def test_a_waiting_request_is_aborted_at_once() -> None:
    engine = make.engine()
    engine.add(make.request(request_id="gone"), now_s=0)
    engine.abort("gone")
    assert engine.waiting == 0
    engine.abort("gone")


def test_aborted_requests_leave_what_they_stored() -> None:
    engine = make.engine(block_size=4)
    engine.add(make.request(range(9), request_id="gone", max_tokens=50), now_s=0)
    engine.schedule(now_s=0)
    engine.abort("gone")
    engine.complete(now_s=0)
    assert make.cached_tokens(make.run(engine, make.request(range(9)))) == 8


def test_a_reset_is_announced_with_the_next_step() -> None:
    engine = make.engine(block_size=4)
    make.run(engine, make.request(range(4)))
    assert engine.reset()
    (result,) = make.run(engine, make.request(range(4)))
    assert isinstance(result.events[0], AllBlocksCleared)
    assert stored_blocks(result.events) == [1]


def test_a_reset_is_refused_while_a_request_runs() -> None:
    engine = make.engine()
    engine.add(make.request(max_tokens=2), now_s=0)
    engine.schedule(now_s=0)
    engine.complete(now_s=0)
    assert not engine.reset()


def test_steps_take_the_time_of_what_is_not_cached() -> None:
    timing = Timing(prefill_s_per_token=1.0, decode_s_per_token=100.0, crowding=0.0)
    engine = make.engine(block_size=4, timing=timing)
    durations = []
    for _ in range(2):
        engine.add(make.request(range(10), max_tokens=2), now_s=0)
        while (step := engine.schedule(now_s=0)) is not None:
            durations.append(step.duration_s)
            engine.complete(now_s=0)
    assert durations == [10.0, 100.0, 2.0, 100.0]


def test_times_are_told_from_arrival_to_end() -> None:
    engine = make.engine(concurrency=1)
    engine.add(make.request(max_tokens=2), now_s=10.0)
    engine.schedule(now_s=11.0)
    first = engine.complete(now_s=13.0)
    engine.schedule(now_s=13.0)
    last = engine.complete(now_s=17.0)
    assert (first.first_token_s, first.between_tokens_s) == ((3.0,), ())
    assert (last.first_token_s, last.between_tokens_s) == ((), (4.0,))
    (finished,) = last.finished
    assert (finished.queue_s, finished.prefill_s, finished.decode_s) == (1.0, 2.0, 4.0)
    assert finished.e2e_s == 7.0


def test_tokens_are_counted() -> None:
    engine = make.engine(block_size=4)
    make.run(engine, make.request(range(9), max_tokens=3))
    make.run(engine, make.request(range(9), max_tokens=2))
    counts = engine.counts
    assert (counts.queried, counts.hit, counts.prompt) == (18, 8, 18)
    assert (counts.prompt_cached, counts.generated, counts.preemptions) == (8, 5, 0)


@pytest.mark.parametrize("length", [0, 16, 17])
def test_a_prompt_that_can_never_be_served_is_refused(length: int) -> None:
    engine = make.engine(num_blocks=5, block_size=4)
    with pytest.raises(ValueError, match=f"1 to 15 tokens, got {length}"):
        engine.add(make.request(range(length)), now_s=0)


def test_two_requests_of_one_name_are_refused() -> None:
    engine = make.engine()
    engine.add(make.request(request_id="same"), now_s=0)
    with pytest.raises(ValueError, match="already here"):
        engine.add(make.request(request_id="same"), now_s=0)


def test_a_step_must_be_completed_before_the_next() -> None:
    engine = make.engine()
    engine.add(make.request(), now_s=0)
    engine.schedule(now_s=0)
    with pytest.raises(ValueError, match="not complete"):
        engine.schedule(now_s=0)


PROMPTS = st.builds(
    lambda stem, tail: [stem] * 6 + tail,
    st.integers(0, 2),
    st.lists(st.integers(0, 2), max_size=10),
)


class Listener:
    """Knows an engine by its events alone, with one count per block."""

    def __init__(self) -> None:
        self.copies: Counter[bytes] = Counter()

    def hear(self, events: tuple[Event, ...]) -> None:
        for event in events:
            match event:
                case BlockStored():
                    self.copies.update(event.digests)
                case BlockRemoved():
                    self.copies[event.digest] -= 1
                    assert self.copies[event.digest] >= 0
                case AllBlocksCleared():
                    self.copies.clear()

    def predict(self, prompt: list[int], block_size: int) -> int:
        digests = Hasher(block_size).chain(prompt, Identity())
        held = [self.copies[digest] > 0 for digest in digests] + [False]
        return block_size * min(held.index(False), (len(prompt) - 1) // block_size)


@settings(max_examples=60, deadline=None)
@given(
    bursts=st.lists(st.lists(PROMPTS, min_size=1, max_size=4), max_size=6),
    output=st.integers(1, 9),
    aborts=st.booleans(),
    probe=PROMPTS,
)
def test_who_counts_the_events_knows_what_the_next_request_reuses(
    bursts: list[list[list[int]]], output: int, aborts: bool, probe: list[int]
) -> None:
    engine, listener = make.engine(num_blocks=14, block_size=2), Listener()
    for burst in bursts:
        names = [_add(engine, prompt, output) for prompt in burst]
        if aborts:
            engine.schedule(now_s=0)
            engine.abort(names[0])
            listener.hear(engine.complete(now_s=0).events)
        for result in make.run(engine):
            listener.hear(result.events)
        assert engine.cache.free_blocks == engine.cache.usable_blocks
    predicted = listener.predict(probe, 2)
    assert make.cached_tokens(make.run(engine, make.request(probe, block_size=2))) == predicted


def _add(engine: Engine, prompt: list[int], output: int) -> str:
    # The answers repeat prompt tokens, so that generated blocks are shared, too.
    request = make.request(prompt, block_size=2, max_tokens=output, answer=[0, 1, 2] * 3)
    engine.add(request, now_s=0)
    return request.request_id


def test_of_a_fetched_prompt_only_the_last_token_is_computed_and_all_blocks_are_stored() -> None:
    engine = make.engine()
    prompt = list(range(10))
    engine.add(make.request(prompt, fetched=True), 0.0)
    step = engine.schedule(0.0)
    assert step is not None
    assert (step.prefill_tokens, step.decoding) == (1, 0)
    result = engine.complete(0.0)
    (stored,) = result.events
    assert isinstance(stored, BlockStored)
    assert (len(stored.digests), list(stored.token_ids)) == (2, prompt[:8])
    assert result.outputs[0].cached_tokens == 0
    assert make.cached_tokens(make.run(engine, make.request(prompt))) == 8


def test_a_fetched_prompt_is_computed_after_a_preemption() -> None:
    engine = make.engine(num_blocks=7)
    old = make.request(list(range(8)), max_tokens=12)
    young = make.request(list(range(50, 58)), max_tokens=12, fetched=True)
    make.run(engine, old, young)
    assert engine.counts.preemptions > 0
    assert engine.counts.generated == 24


def test_an_answer_that_ended_says_which_blocks_held_it() -> None:
    first, last = make.outputs(make.run(make.engine(), make.request(range(5), max_tokens=2)))
    assert first.blocks == ()
    assert last.blocks == (1, 2)
