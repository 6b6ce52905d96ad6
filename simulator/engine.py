"""The scheduler of a vLLM V1 engine, one step at a time, on a clock that the caller reads.

    add ──► waiting ──► running ──► finished
                ◄── preempted ──┘

A step is two calls. `schedule` decides what is computed: running requests first, then waiting ones
while there are places, tokens and blocks; a block that this fills is reusable at once, so requests
of one step share a prefix. The caller lets the step's duration pass and calls `complete`, which
yields the tokens and the KV events. When a running request finds no free block, the youngest
running one loses all of its blocks and starts over from the head of the waiting queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from simulator.blocks import PrefixCache
from simulator.clock import Timing
from simulator.hashing import Hasher
from simulator.sequence import Sequence
from simulator.types import Counts, EngineRequest, FinishReason, Output, Step, StepResult

MAX_BATCHED_TOKENS = 8192
"""Tokens one step computes at most; longer prompts are prefilled in chunks, as in vLLM."""


class _Plan:
    """A step while it is decided."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.decoding = 0
        self.prefill_tokens = 0
        self.sequences: dict[str, Sequence] = {}

    def add(self, sequence: Sequence, count: int) -> None:
        self.budget -= count
        if sequence.output_tokens and count == 1:
            self.decoding += 1
        else:
            self.prefill_tokens += count
        self.sequences[sequence.request.request_id] = sequence


class Engine:
    """One engine core: its prefix cache and its queues. Equal calls give equal results."""

    def __init__(
        self,
        cache: PrefixCache,
        hasher: Hasher,
        timing: Timing,
        *,
        max_model_len: int,
        concurrency: int,
        max_loras: int = 1,
        max_batched_tokens: int = MAX_BATCHED_TOKENS,
    ) -> None:
        self.cache = cache
        self.counts = Counts()
        self.token_limit = min(max_model_len, cache.usable_blocks * cache.block_size)
        self._hasher = hasher
        self._timing = timing
        self._concurrency = concurrency
        self._max_loras = max_loras
        self._max_batched_tokens = max_batched_tokens
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []
        self._known: dict[str, Sequence] = {}
        self._in_step: dict[str, Sequence] = {}
        self._aborted: list[str] = []

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def running_adapters(self) -> tuple[str, ...]:
        return _adapters(self._running)

    @property
    def unfinished_adapters(self) -> tuple[str, ...]:
        return _adapters([*self._running, *self._waiting])

    def add(self, request: EngineRequest, now_s: float) -> None:
        """Queue a request. Raises ValueError for one that even an empty cache could not serve."""
        if not 0 < len(request.prompt_token_ids) < self.token_limit:
            raise ValueError(
                f"a prompt takes 1 to {self.token_limit - 1} tokens,"
                f" got {len(request.prompt_token_ids)}"
            )
        if request.request_id in self._known:
            raise ValueError(f"request {request.request_id!r} is already here")
        sequence = Sequence(request, now_s)
        self._known[request.request_id] = sequence
        self._waiting.append(sequence)

    def abort(self, request_id: str) -> None:
        """Drop a request. Takes effect between two steps; one that has ended is left alone."""
        self._aborted.append(request_id)
        if not self._in_step:
            self._drop_aborted()

    def reset(self) -> bool:
        """Forget the cache; refused while any request holds blocks."""
        return self.cache.reset()

    def schedule(self, now_s: float) -> Step | None:
        """Decide the next step; None when there is nothing to compute."""
        if self._in_step:
            raise ValueError("the step before is not complete")
        plan = _Plan(self._max_batched_tokens)
        self._schedule_running(plan)
        self._schedule_waiting(plan, now_s)
        if not plan.sequences:
            return None
        self._in_step = plan.sequences
        duration_s = self._timing.step_s(plan.prefill_tokens, plan.decoding)
        return Step(duration_s, plan.prefill_tokens, plan.decoding)

    def complete(self, now_s: float) -> StepResult:
        """The scheduled step is over: sample, finish, and hand out what it brought."""
        stepped, self._in_step = self._in_step, {}
        self._drop_aborted()
        outputs, finished, first_s, between_s = [], [], [], []
        for name, sequence in stepped.items():
            if name not in self._known or sequence.computed < len(sequence.tokens):
                continue
            if sequence.first_token_s is None:
                first_s.append(now_s - sequence.arrived_s)
                self._end_prefill(sequence, now_s)
            else:
                between_s.append(now_s - sequence.last_token_s)
            sequence.last_token_s = now_s
            output = self._sample(sequence)
            outputs.append(output)
            if output.finish_reason is not None:
                self._forget(sequence)
                finished.append(sequence.account(output.finish_reason, now_s))
        return StepResult(
            events=self.cache.drain_events(),
            outputs=tuple(outputs),
            finished=tuple(finished),
            first_token_s=tuple(first_s),
            between_tokens_s=tuple(between_s),
        )

    def _schedule_running(self, plan: _Plan) -> None:
        """Give running requests their tokens, oldest first; the youngest pays when blocks lack.

        One that pays cannot come back in the same step: another has taken a block of what it freed.
        """
        index = 0
        while index < len(self._running) and plan.budget > 0:
            sequence = self._running[index]
            count = min(len(sequence.tokens) - sequence.computed, plan.budget)
            missing = self._missing_blocks(sequence, sequence.computed + count)
            while not self.cache.can_take((), missing):
                self._preempt(self._running.pop())
                if index == len(self._running):
                    return
            sequence.blocks += self.cache.take((), missing)
            self._compute(sequence, count)
            plan.add(sequence, count)
            index += 1

    def _schedule_waiting(self, plan: _Plan, now_s: float) -> None:
        """Admit waiting requests in order; one whose adapter has no place is passed over."""
        passed_over: list[Sequence] = []
        while self._waiting and plan.budget > 0 and len(self._running) < self._concurrency:
            sequence = self._waiting.popleft()
            if not self._has_adapter_place(sequence):
                passed_over.append(sequence)
            elif not self._admit(sequence, plan, now_s):
                self._waiting.appendleft(sequence)
                break
        self._waiting.extendleft(reversed(passed_over))

    def _admit(self, sequence: Sequence, plan: _Plan, now_s: float) -> bool:
        """Start a sequence, if blocks for all of its prompt are there though it may be chunked."""
        total = len(sequence.tokens)
        request = sequence.request
        reused = [] if request.skips_lookup else self.cache.lookup(sequence.digests, total)
        cached = len(reused) * self.cache.block_size
        missing = self._missing_blocks(sequence, total) - len(reused)
        if not self.cache.can_take(reused, missing):
            return False
        computed = max(cached, total - 1) if sequence.is_fetched else cached
        count = min(total - computed, plan.budget)
        missing = self._missing_blocks(sequence, computed + count) - len(reused)
        sequence.blocks = [*reused, *self.cache.take(reused, missing)]
        sequence.stored_blocks = len(reused)
        sequence.computed = computed
        if request.reports_reused:
            self.cache.announce(
                sequence.digests[: len(reused)],
                sequence.tokens,
                0,
                request.identity,
                request.session_id,
            )
        self._count_admission(sequence, cached, now_s)
        self._running.append(sequence)
        self._compute(sequence, count)
        plan.add(sequence, count)
        return True

    def _count_admission(self, sequence: Sequence, cached: int, now_s: float) -> None:
        if sequence.cached_tokens is not None:
            return
        sequence.cached_tokens = cached
        sequence.admitted_s = now_s
        if not sequence.request.skips_lookup:
            self.counts.queried += len(sequence.tokens)
            self.counts.hit += cached

    def _missing_blocks(self, sequence: Sequence, tokens: int) -> int:
        """How many blocks more than it has a sequence needs to hold so many tokens."""
        return -(-tokens // self.cache.block_size) - len(sequence.blocks)

    def _compute(self, sequence: Sequence, count: int) -> None:
        """Advance a sequence and make the blocks that this fills reusable."""
        sequence.computed += count
        full = sequence.computed // self.cache.block_size
        if full == sequence.stored_blocks:
            return
        request = sequence.request
        self.cache.store(
            sequence.blocks,
            sequence.digests[:full],
            sequence.tokens,
            sequence.stored_blocks,
            request.identity,
            request.session_id,
        )
        sequence.stored_blocks = full

    def _preempt(self, sequence: Sequence) -> None:
        self.cache.release(sequence.blocks)
        sequence.blocks = []
        sequence.stored_blocks = 0
        sequence.computed = 0
        sequence.preemptions += 1
        self.counts.preemptions += 1
        self._waiting.appendleft(sequence)

    def _has_adapter_place(self, sequence: Sequence) -> bool:
        adapter = sequence.request.identity.adapter
        in_use = self.running_adapters
        return adapter is None or adapter.name in in_use or len(in_use) < self._max_loras

    def _end_prefill(self, sequence: Sequence, now_s: float) -> None:
        sequence.first_token_s = now_s
        self.counts.prompt += len(sequence.request.prompt_token_ids)
        self.counts.prompt_cached += sequence.cached_tokens or 0

    def _sample(self, sequence: Sequence) -> Output:
        """Take the next token of the answer; its end is an end of the request without a token."""
        request, cached = sequence.request, sequence.cached_tokens or 0
        token = next(request.answer, None)
        if token is None:
            held = sequence.block_numbers
            return Output(request.request_id, None, FinishReason.STOP, cached, held)
        sequence.tokens.append(token)
        self.counts.generated += 1
        sequence.digests += self._hasher.chain(sequence.tokens, request.identity, sequence.digests)
        reason, is_full = None, len(sequence.tokens) >= self.token_limit
        if token in request.stop_token_ids:
            reason = FinishReason.STOP
        elif is_full or sequence.output_tokens >= request.max_tokens:
            reason = FinishReason.LENGTH
        held = () if reason is None else sequence.block_numbers
        return Output(request.request_id, token, reason, cached, held)

    def _forget(self, sequence: Sequence) -> None:
        """Take a sequence out of the queues and let go of its blocks."""
        self._known.pop(sequence.request.request_id)
        queue = self._running if sequence in self._running else self._waiting
        queue.remove(sequence)
        self.cache.release(sequence.blocks)
        sequence.blocks = []

    def _drop_aborted(self) -> None:
        for request_id in self._aborted:
            sequence = self._known.get(request_id)
            if sequence is not None:
                self._forget(sequence)
        self._aborted.clear()


def _adapters(sequences: Iterable[Sequence]) -> tuple[str, ...]:
    """The names of the adapters that sequences use, each once, in order."""
    adapters = (sequence.request.identity.adapter for sequence in sequences)
    return tuple(dict.fromkeys(adapter.name for adapter in adapters if adapter))
