"""The service over a real socket: many requests on one stream, and what may go wrong with one."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from tests.tokenizer_sidecar.disk import TINY, captured, chat
from tests.tokenizer_sidecar.wire import ask, ids, reply, request, served, until
from tokenizer_sidecar.models import Backoff, Models
from tokenizer_sidecar.pb.tokenizer_pb2 import (
    BUSY,
    EXPIRED,
    FAILED,
    NOT_READY,
    OK,
    REFUSED,
    UNKNOWN_MODEL,
    UNSUPPORTED,
    ListModelsRequest,
    TokenizeRequest,
)
from tokenizer_sidecar.render import Renderer
from tokenizer_sidecar.service import Service
from tokenizer_sidecar.stats import Stats

if TYPE_CHECKING:
    from tokenizer_sidecar.pb.tokenizer_pb2_grpc import TokenizerAsyncStub


class Gated(Renderer):
    """Holds completions back until the gate opens; fails on the prompt "boom"."""

    gate: threading.Event
    begun: list[object]

    def packed_completion(self, body: Mapping[str, Any]) -> bytes:
        if body["prompt"] == "boom":
            raise RuntimeError("a secret prompt")
        self.begun.append(body)
        assert self.gate.wait(20)
        return super().packed_completion(body)


class Running:
    """A service with the tiny model and one that never loads."""

    def __init__(
        self,
        *,
        max_in_flight: int = 256,
        workers: int = 4,
        max_queued: int = 1024,
        inline_bytes: int = 0,
        max_ids_bytes: int = 1 << 26,
    ) -> None:
        self.renderer = Gated.load(TINY)
        self.renderer.gate = threading.Event()
        self.renderer.begun = []
        self.stats = Stats()
        directories = {"tiny": TINY, "late": TINY / "nowhere"}
        self.models = Models(directories, self.stats, Backoff(60.0), self._load)
        self.service = Service(
            self.models,
            self.stats,
            workers=workers,
            max_in_flight=max_in_flight,
            max_queued=max_queued,
            inline_bytes=inline_bytes,
            max_ids_bytes=max_ids_bytes,
        )

    def _load(self, directory: Path) -> Renderer:
        return self.renderer if directory == TINY else Renderer.load(directory)

    @asynccontextmanager
    async def open(self, path: Path) -> AsyncIterator[TokenizerAsyncStub]:
        with ThreadPoolExecutor(1) as pool:
            async with asyncio.TaskGroup() as group, served(self.service, path) as stub:
                loading = group.create_task(self.models.keep_loading(pool))
                await until(lambda: self.stats.load_failures["late"] == 1)
                try:
                    yield stub
                finally:
                    self.renderer.gate.set()
                    loading.cancel()


async def test_many_requests_on_one_stream_get_the_ids_of_the_engine(tmp_path: Path) -> None:
    samples = [s for s in captured("render_samples.jsonl") if s["status"] == 200] * 6
    running = Running()
    running.renderer.gate.set()
    async with running.open(tmp_path / "s") as stub:
        stream = stub.Tokenize()
        replies = await ask(stream, (request(i, s["body"]) for i, s in enumerate(samples)))
        await stream.done_writing()
        assert await stream.read() is grpc.aio.EOF
    assert [ids(replies[i]) for i in range(len(samples))] == [s["token_ids"][0] for s in samples]
    assert running.stats.requests["OK"] == len(samples)
    assert running.stats.tokens == sum(len(s["token_ids"][0]) for s in samples)
    assert sum(running.stats.encode_buckets) == len(samples)
    assert running.stats.encode_s > 0
    assert running.stats.in_flight == 0


async def test_each_kind_of_failure_has_its_outcome_and_hurts_no_other(tmp_path: Path) -> None:
    running = Running()
    running.renderer.gate.set()
    media = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}
    async with running.open(tmp_path / "s") as stub:
        replies = await ask(
            stub.Tokenize(),
            [
                request(1, chat("Hello there")),
                request(2, model="nobody"),
                request(3, model="late"),
                request(4, raw=b'{"prompt": "\\ud800"}'),
                request(5, chat(media, truncate_prompt_tokens=5)),
                request(6, {"prompt": "boom"}),
                request(7, {"prompt": "Hello there"}),
            ],
        )
    outcomes = [replies[i].outcome for i in range(1, 8)]
    assert outcomes == [OK, UNKNOWN_MODEL, NOT_READY, REFUSED, UNSUPPORTED, FAILED, OK]
    assert "nobody" in replies[2].message
    assert "nowhere" in replies[3].message
    assert ids(replies[7]) == [3237, 348, 1434]
    assert running.stats.requests["FAILED"] == 1


def _write_panicking(directory: Path) -> None:
    """A model that loads, and whose tokenizer panics whenever special tokens are asked for."""
    for file in TINY.iterdir():
        (directory / file.name).write_bytes(file.read_bytes())
    path = directory / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    single = [
        {"SpecialToken": {"id": "gone", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
    ]
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": single,
        "pair": single,
        "special_tokens": {},
    }
    path.write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.parametrize("inline_bytes", [0, 4096])
async def test_a_library_that_panics_hurts_no_other_request(
    tmp_path: Path, inline_bytes: int
) -> None:
    _write_panicking(tmp_path)
    stats = Stats()
    models = Models({"tiny": TINY, "broken": tmp_path}, stats, Backoff())
    with ThreadPoolExecutor(1) as pool:
        await models.keep_loading(pool)
    service = Service(models, stats, workers=2, max_in_flight=8, inline_bytes=inline_bytes)
    async with served(service, tmp_path / "s") as stub:
        replies = await ask(
            stub.Tokenize(),
            [
                request(1, {"prompt": "Hello there"}),
                request(2, {"prompt": "Hello there"}, model="broken"),
                request(3, {"prompt": "Hello", "add_special_tokens": False}, model="broken"),
                request(4, {"prompt": "Hello there"}),
            ],
        )
    assert [replies[i].outcome for i in range(1, 5)] == [OK, FAILED, OK, OK]
    assert replies[2].message == "Panic in the sidecar"
    assert stats.in_flight == 0


async def test_a_fault_is_logged_without_the_prompt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running = Running()
    async with running.open(tmp_path / "s") as stub:
        replies = await ask(stub.Tokenize(), [request(1, {"prompt": "boom"})])
    output = capsys.readouterr()
    logged = output.out + output.err
    assert "tokenize.failed" in logged
    assert "RuntimeError" in logged
    assert "secret" not in logged
    assert "secret" not in replies[1].message


async def test_replies_come_in_the_order_they_are_done(tmp_path: Path) -> None:
    running = Running()
    async with running.open(tmp_path / "s") as stub:
        stream = stub.Tokenize()
        await stream.write(request(1, {"prompt": "held back"}))
        await stream.write(request(2, chat("quick")))
        assert (await reply(stream)).id == 2
        running.renderer.gate.set()
        assert (await reply(stream)).id == 1


async def test_reading_pauses_at_the_limit(tmp_path: Path) -> None:
    running = Running(max_in_flight=2)
    async with running.open(tmp_path / "s") as stub:
        stream = stub.Tokenize()
        for i in range(5):
            await stream.write(request(i))
        await until(lambda: len(running.renderer.begun) == 2)
        # Another stream has a limit of its own, and its answer shows the loop is not stuck.
        assert (await ask(stub.Tokenize(), [request(9, chat("a"))]))[9].outcome == OK
        await until(lambda: running.stats.in_flight == 2)
        running.renderer.gate.set()
        assert {(await reply(stream)).id for _ in range(5)} == set(range(5))


async def test_long_bodies_leave_threads_for_short_ones(tmp_path: Path) -> None:
    running = Running(workers=1)
    async with running.open(tmp_path / "s") as stub:
        stream = stub.Tokenize()
        for i in range(4):
            await stream.write(request(i, {"prompt": "long " * 20_000}))
        await until(lambda: len(running.renderer.begun) == 1)
        await stream.write(request(9, chat("short")))
        assert (await reply(stream)).id == 9


async def test_a_request_whose_time_is_over_is_not_begun(tmp_path: Path) -> None:
    running = Running(workers=1)
    async with running.open(tmp_path / "s") as stub:
        stream = stub.Tokenize()
        await stream.write(request(1))
        await until(lambda: len(running.renderer.begun) == 1)
        await stream.write(request(2, timeout_ms=1))
        await stream.write(request(3, timeout_ms=60_000))
        await until(lambda: running.service.queued == 2)
        await asyncio.sleep(0.002)
        running.renderer.gate.set()
        outcomes = {
            answered.id: answered.outcome for answered in [await reply(stream) for _ in "123"]
        }
    assert outcomes == {1: OK, 2: EXPIRED, 3: OK}
    assert len(running.renderer.begun) == 2
    assert running.stats.requests["EXPIRED"] == 1


def cancel(id_: int) -> TokenizeRequest:
    return TokenizeRequest(id=id_, cancel=True)


async def test_a_request_that_is_withdrawn_is_not_begun_and_not_answered(tmp_path: Path) -> None:
    running = Running(workers=1)
    async with running.open(tmp_path / "s") as stub:
        stream = stub.Tokenize()
        for i in range(3):
            await stream.write(request(i))
        await until(lambda: running.service.queued == 2)
        await stream.write(cancel(1))
        await stream.write(cancel(77))  # never asked
        await until(lambda: running.service.queued == 1)
        running.renderer.gate.set()
        assert [(await reply(stream)).id for _ in range(2)] == [0, 2]
        await stream.write(cancel(2))  # answered already
        assert (await ask(stream, [request(3)]))[3].outcome == OK
    assert len(running.renderer.begun) == 3
    assert running.stats.requests["CANCELLED"] == 1
    assert running.stats.in_flight == 0


async def test_a_withdrawn_request_that_has_begun_leaves_its_place_to_others(
    tmp_path: Path,
) -> None:
    running = Running(workers=1, max_in_flight=2)
    async with running.open(tmp_path / "s") as stub:
        stream = stub.Tokenize()
        await stream.write(request(1))
        await until(lambda: len(running.renderer.begun) == 1)
        await stream.write(cancel(1))
        await until(lambda: running.stats.in_flight == 0)
        running.renderer.gate.set()
        assert (await ask(stream, [request(2)]))[2].outcome == OK


@pytest.mark.parametrize("inline_bytes", [0, 1000])
async def test_ids_that_fit_no_message_are_refused_and_end_no_stream(
    tmp_path: Path, inline_bytes: int
) -> None:
    running = Running(max_ids_bytes=40, inline_bytes=inline_bytes)
    running.renderer.gate.set()
    async with running.open(tmp_path / "s") as stub:
        asked = [request(1, {"prompt": [5] * 11}), request(2, {"prompt": [5] * 10})]
        replies = await ask(stub.Tokenize(), asked)
    assert replies[1].outcome == UNSUPPORTED
    assert "11 ids do not fit" in replies[1].message
    assert ids(replies[2]) == [5] * 10


async def test_a_request_beyond_the_queue_s_end_is_refused_at_once(tmp_path: Path) -> None:
    running = Running(workers=1, max_queued=2)
    async with running.open(tmp_path / "s") as stub:
        stream = stub.Tokenize()
        for i in range(5):
            await stream.write(request(i))
        refused = [await reply(stream) for _ in range(2)]
        assert [answered.outcome for answered in refused] == [BUSY, BUSY]
        assert "2 requests are waiting" in refused[0].message
        running.renderer.gate.set()
        assert [(await reply(stream)).outcome for _ in range(3)] == [OK, OK, OK]
    assert running.service.queued == 0


async def test_short_bodies_are_answered_without_a_thread(tmp_path: Path) -> None:
    running = Running(workers=1, inline_bytes=200)
    long = "a " * 200
    media = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}
    async with running.open(tmp_path / "s") as stub:
        stream = stub.Tokenize()
        await stream.write(request(1, {"prompt": long}))
        await until(lambda: len(running.renderer.begun) == 1)
        asked = [
            request(2, chat("short")),
            request(3, model="nobody"),
            request(4, chat(media, truncate_prompt_tokens=5)),
            request(5, {"prompt": "boom"}),
        ]
        outcomes = {i: each.outcome for i, each in (await ask(stream, asked)).items()}
        assert outcomes == {2: OK, 3: UNKNOWN_MODEL, 4: UNSUPPORTED, 5: FAILED}
        running.renderer.gate.set()
        assert (await reply(stream)).id == 1
    assert sum(running.stats.encode_buckets) == 5
    assert running.stats.work_s > 0


async def test_prompts_of_a_megabyte_delay_neither_short_ones_nor_health(tmp_path: Path) -> None:
    running = Running()
    running.renderer.gate.set()
    async with running.open(tmp_path / "s") as stub:
        stream = stub.Tokenize()
        for i in range(4):
            # No piece of it comes again, so that all of it has to be encoded.
            text = " ".join(f"the fox {i} jumps over {word}" for word in range(44_000))
            await stream.write(request(i, {"prompt": text}))
        for i in range(10, 15):
            await stream.write(request(i, chat("short")))
        listed = await stub.ListModels(ListModelsRequest())
        assert [model.ready for model in listed.models] == [True, False]
        answered = [await reply(stream) for _ in range(9)]
    order = [each.id for each in answered]
    assert max(order.index(i) for i in range(10, 15)) < max(order.index(i) for i in range(4))
    assert len(ids(answered[-1])) > 200_000


async def test_a_cancelled_stream_frees_what_it_held(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    running = Running(workers=2)
    async with running.open(tmp_path / "s") as stub:
        stream = stub.Tokenize()
        for i in range(6):
            await stream.write(request(i))
        await until(lambda: len(running.renderer.begun) == 2)
        stream.cancel()
        await until(lambda: running.stats.in_flight == 0)
        running.renderer.gate.set()
        assert (await ask(stub.Tokenize(), [request(1)]))[1].outcome == OK
    # What waited in the queue was never run: two of the first stream, one of the second.
    assert len(running.renderer.begun) == 3
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_draining_finishes_what_was_read_and_ends_the_stream(tmp_path: Path) -> None:
    running = Running()
    async with running.open(tmp_path / "s") as stub:
        stream = stub.Tokenize()
        await stream.write(request(1))
        await until(lambda: len(running.renderer.begun) == 1)
        running.service.drain()
        running.renderer.gate.set()
        assert (await reply(stream)).outcome == OK
        assert await stream.read() is grpc.aio.EOF
        assert await stream.code() == grpc.StatusCode.OK
        late = stub.Tokenize()
        assert await late.read() is grpc.aio.EOF


async def test_models_are_listed_with_what_keeps_them(tmp_path: Path) -> None:
    async with Running().open(tmp_path / "s") as stub:
        listed = (await stub.ListModels(ListModelsRequest())).models
    assert [(model.name, model.ready) for model in listed] == [("tiny", True), ("late", False)]
    assert listed[0].message == ""
    assert "nowhere" in listed[1].message
