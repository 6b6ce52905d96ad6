"""The sidecar as a whole: starting, refusing to start, loading late, ending."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest

from tests.support.ports import free_port
from tests.tokenizer_sidecar.disk import ROOT, TINY, chat, write_model
from tests.tokenizer_sidecar.wire import ask, connected, ids, reply, request
from tokenizer_sidecar.errors import ModelError
from tokenizer_sidecar.models import Backoff
from tokenizer_sidecar.pb.tokenizer_pb2 import NOT_READY, OK, UNSUPPORTED, ListModelsRequest
from tokenizer_sidecar.server import SidecarConfig, serve
from tokenizer_sidecar.unix_socket import SocketUnusable


@asynccontextmanager
async def sidecar(config: SidecarConfig) -> AsyncIterator[asyncio.Event]:
    """The sidecar, ready; stopped at the end, or before by setting what is yielded."""
    ready, stop = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(serve(config, ready.set, stop))
        async with asyncio.timeout(20):
            await ready.wait()
        try:
            yield stop
        finally:
            stop.set()


def config(path: Path, **fields: object) -> SidecarConfig:
    return SidecarConfig(**{"socket": path, "models": {"tiny": TINY}, **fields})  # type: ignore[arg-type]


async def becomes_ready(path: Path) -> None:
    async with connected(path) as stub, asyncio.timeout(20):
        listed = await stub.ListModels(ListModelsRequest())
        while not all(model.ready for model in listed.models):
            listed = await stub.ListModels(ListModelsRequest())


async def test_a_chat_is_tokenized(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with sidecar(config(path)):
        await becomes_ready(path)
        async with connected(path) as stub:
            replies = await ask(stub.Tokenize(), [request(1, chat("Hello there"))])
        assert ids(replies[1])[:6] == [1, 1767, 205, 3237, 348, 1434]
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert not path.exists()


async def test_the_socket_s_mode_is_configurable(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with sidecar(config(path, socket_mode=0o600)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_model_is_not_ready_until_its_files_are_there(tmp_path: Path) -> None:
    path, directory = tmp_path / "s", tmp_path / "model"
    directory.mkdir()
    models = {"late": directory, "tiny": TINY}
    waits = Backoff(0.01, 0.02)
    async with sidecar(config(path, models=models, backoff=waits)), connected(path) as stub:
        early = (await ask(stub.Tokenize(), [request(1, model="late")]))[1]
        assert early.outcome == NOT_READY
        write_model(directory)
        await becomes_ready(path)
        assert (await ask(stub.Tokenize(), [request(2, model="late")]))[2].outcome == OK


async def test_probes_tell_of_each_model(tmp_path: Path) -> None:
    path, directory, port = tmp_path / "s", tmp_path / "model", free_port()
    directory.mkdir()
    chosen = config(
        path,
        models={"late": directory, "tiny": TINY},
        backoff=Backoff(0.01, 0.02),
        metrics_port=port,
    )
    url = f"http://127.0.0.1:{port}"
    async with sidecar(chosen), aiohttp.ClientSession() as session:
        async with session.get(f"{url}/healthz") as response:
            assert response.status == 200
        told: dict[str, Any] = {"models": {"tiny": {"ready": False}}}
        while not told["models"]["tiny"]["ready"]:
            async with session.get(f"{url}/readyz") as response:
                assert response.status == 503
                told = await response.json()
        assert not told["models"]["late"]["ready"]
        assert told["models"]["late"]["message"]
        write_model(directory)
        await becomes_ready(path)
        async with session.get(f"{url}/readyz") as response:
            assert response.status == 200
            ready = {"ready": True, "message": ""}
            assert await response.json() == {"models": {"late": ready, "tiny": ready}}


async def test_the_largest_body_is_configurable(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with sidecar(config(path, max_body_bytes=1000)):
        await becomes_ready(path)
        async with connected(path) as stub:
            asked = [request(1, {"prompt": [5] * 251}), request(2, {"prompt": [5] * 250})]
            replies = await ask(stub.Tokenize(), asked)
            assert [replies[i].outcome for i in (1, 2)] == [UNSUPPORTED, OK]
            large = stub.Tokenize()
            await large.write(request(3, raw=b" " * 2_000_000))
            assert await large.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_messages_may_be_larger_than_the_usual_limit_of_grpc(tmp_path: Path) -> None:
    path = tmp_path / "s"
    prompt = [5] * 1_100_000
    async with sidecar(config(path)):
        await becomes_ready(path)
        async with connected(path) as stub:
            big = request(1, {"prompt": prompt, "user": "x" * 4_000_000})
            replies = await ask(stub.Tokenize(), [big])
    assert len(big.body) > 4 * 1024 * 1024
    assert len(replies[1].token_ids) == 4 * len(prompt)


@pytest.mark.parametrize("what", ["absent", "a file"])
async def test_a_missing_model_directory_is_an_error_before_listening(
    tmp_path: Path, what: str
) -> None:
    directory = tmp_path / "model"
    if what == "a file":
        directory.write_text("")
    path = tmp_path / "s"
    with pytest.raises(ModelError, match=r"model 'm': .*model is not a directory"):
        await serve(config(path, models={"m": directory}), lambda: None, asyncio.Event())
    assert not path.exists()


async def test_the_socket_of_a_dead_sidecar_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with sidecar(config(path)):
        await becomes_ready(path)


async def test_a_second_sidecar_does_not_start_and_leaves_the_first_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with sidecar(config(path)):
        with pytest.raises(SocketUnusable, match="another process is listening"):
            await serve(config(path), lambda: None, asyncio.Event())
        await becomes_ready(path)


async def test_metrics_are_served_where_asked_for(tmp_path: Path) -> None:
    path, port = tmp_path / "s", free_port()
    async with sidecar(config(path, metrics_port=port)), aiohttp.ClientSession() as session:
        await becomes_ready(path)
        async with connected(path) as stub:
            await ask(stub.Tokenize(), [request(1), request(2, model="nobody")])
        async with session.get(f"http://127.0.0.1:{port}/metrics") as response:
            text = await response.text()
    assert 'requests_total{outcome="ok"} 1' in text
    assert 'requests_total{outcome="unknown_model"} 1' in text


async def test_a_taken_metrics_port_is_an_error_and_leaves_no_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="address already in use"):
            await serve(config(path, metrics_port=port), lambda: None, asyncio.Event())
    assert not path.exists()


async def test_stopping_finishes_what_is_in_flight(tmp_path: Path) -> None:
    path = tmp_path / "s"
    # No piece of it comes again, so that all of it has to be encoded.
    long = {"prompt": " ".join(f"the fox jumps over {word}" for word in range(150_000))}
    port = free_port()
    # The client leaves its stream open; the end must not wait for the drain's limit all the same.
    patient = config(path, metrics_port=port, drain_s=600.0)
    async with asyncio.timeout(30), sidecar(patient) as stop:
        await becomes_ready(path)
        async with connected(path) as stub, aiohttp.ClientSession() as session:
            stream = stub.Tokenize()
            await stream.write(request(1, long))
            in_flight = ""
            while "in_flight 1.0" not in in_flight:
                async with session.get(f"http://127.0.0.1:{port}/metrics") as response:
                    in_flight = await response.text()
            stop.set()
            assert len(ids(await reply(stream))) > 200_000
            assert await stream.read() is grpc.aio.EOF
    assert not path.exists()


PROGRAM = """
import asyncio, pathlib, signal, sys
from tokenizer_sidecar.server import SidecarConfig, serve

async def main():
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    path, model = map(pathlib.Path, sys.argv[1:])
    config = SidecarConfig(socket=path, models={"tiny": model})
    await serve(config, lambda: print("ready", flush=True), stop)

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_process_in_order(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "s"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, path, TINY,
        stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stdout is not None
    async with asyncio.timeout(30):
        while b"ready" not in await process.stdout.readline():
            assert process.returncode is None
        await becomes_ready(path)
        async with connected(path) as stub:
            await ask(stub.Tokenize(), [request(1)])
            process.send_signal(number)
            await process.stdout.read()
            assert await process.wait() == 0
    assert not path.exists()


async def test_a_killed_sidecar_can_be_started_again(tmp_path: Path) -> None:
    path = tmp_path / "s"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, path, TINY,
        stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stdout is not None
    async with asyncio.timeout(30):
        while b"ready" not in await process.stdout.readline():
            assert process.returncode is None
        process.kill()
        await process.communicate()
        assert path.exists()
        async with sidecar(config(path)):
            await becomes_ready(path)
