"""`warmroute up`: everything on this machine, and an end that leaves nothing behind. IO."""

from __future__ import annotations

import argparse
import asyncio
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import msgspec

from warmroute import flags
from warmroute.children import Child
from warmroute.errors import StartError
from warmroute.lines import PROBE_ID, request_line
from warmroute.plan import (
    Plan,
    envoy_command,
    make_plan,
    router_command,
    tokenizer_command,
)
from warmroute.running import complete, stop_on_signals
from warmroute.simulated import engine_command, sidecar_command

READY_S = 120.0
"""How long everything together may take to become ready."""

EXAMPLE = (
    "Explain in plain words what a key-value cache of a language model holds, why the engine that "
    "has already read a prompt answers the next one that starts alike sooner, and what a router "
    "must know to send it there."
)
"""A prompt of several blocks, so that the second answer shows cached tokens."""

SETTLE_S = 20.0
"""How long real engines are given until all is well; then what is not is told, and `up` goes on."""

POLL_S = 0.1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    add = parser.add_argument
    add("--config", type=Path, help="an EndpointPickerConfig; default: the built-in one")
    add("--endpoints", type=Path, help="a file naming real engines; then none are simulated")
    add("--engines", type=flags.count, default=4, metavar="N", help="simulated engines")
    flags.add_switch(parser, "--pd", default=False, text="prefill and decode on engines apart")
    add("--engine-host", default="127.0.0.1", help="address of the first; the next ones follow it")
    add("--engine-port", type=flags.port, default=8000, help="their HTTP port")
    add("--bind-address", default="127.0.0.1", help="address of Envoy and the router")
    add("--port", type=flags.port, default=8080, help="port of Envoy: where clients go")
    add("--grpc-port", type=flags.port, default=9002, help="port of ext_proc")
    add("--grpc-health-port", type=flags.port, default=9003, help="port of gRPC health checks")
    add("--metrics-port", type=flags.port, default=9090, help="the router's HTTP port")
    add("--model", type=flags.model, action="append", metavar="NAME=DIR", help="a model to serve")
    add("--request-body", choices=("buffered", "full-duplex"), default="buffered")
    add("--max-body-bytes", type=flags.body_bytes, default=64 * 1024 * 1024)
    add("--usage-sample", type=flags.count, default=1, metavar="N", help="read usage of 1 in N")
    flags.add_index_flags(parser)
    flags.add_rename_flag(parser)
    flags.add_debug_flags(parser)
    flags.add_switch(
        parser, "--allow-kv-transfer-params", default=False, text="let clients send it"
    )


def run(arguments: argparse.Namespace) -> int:
    """Start everything, wait for the end, stop everything."""
    with tempfile.TemporaryDirectory(prefix="warmroute-") as folder:
        plan = make_plan(arguments, Path(folder))
        _check_ports(plan)
        return complete(asyncio.run, _up(plan))


def _check_ports(plan: Plan) -> None:
    """Refuse early and by name: a child that finds its port taken says it less well."""
    for host, port, flag in plan.ports():
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                reason = error.strerror or str(error)
                raise StartError(
                    f"{host}:{port} cannot be used: {reason} ({flag} moves it)"
                ) from error


async def _up(plan: Plan) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    async with asyncio.TaskGroup() as group:
        running: list[Child] = []
        watch = group.create_task(_run_children(plan, group, running))
        stopped = group.create_task(stop.wait())
        try:
            await asyncio.wait({watch, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            watch.cancel()
            stopped.cancel()
            # The reverse of the start: nothing new arrives while what it needs goes away.
            for child in reversed(running):
                await child.stop()


async def _run_children(plan: Plan, group: asyncio.TaskGroup, running: list[Child]) -> None:
    """Start all, report, then wait until one ends. Raises StartError when one does."""
    for child in _children(plan):
        await child.start(group, _show_request if child.name == "router" else _ignore)
        running.append(child)
    async with asyncio.TaskGroup() as watching:
        for child in running:
            watching.create_task(_fail_when_ended(child))
        await _ready(plan)
        _greet(plan)


async def _fail_when_ended(child: Child) -> None:
    raise child.failure(await child.ended())


def _children(plan: Plan) -> Iterator[Child]:
    model, directory = next(iter(plan.models.items()))
    for i, engine in enumerate(plan.engines, 1):
        yield Child(f"engine-{i}", engine_command(engine, model, directory, plan.block_size))
        if engine.has_sidecar and plan.endpoints is not None:
            yield Child(f"sidecar-{i}", sidecar_command(engine, plan.endpoints))
    yield Child("tokenizer", tokenizer_command(plan))
    yield Child("router", router_command(plan))
    yield Child("envoy", envoy_command(plan))


async def _ready(plan: Plan) -> None:
    """Wait until a request would be served as it should. Raises StartError."""
    try:
        async with asyncio.timeout(READY_S), aiohttp.ClientSession() as session:
            for engine in plan.engines:
                await _until_ok(session, _url(engine.host, engine.own_port, "/health"))
                await _until_ok(session, _url(engine.host, engine.port, "/health"))
            await _settle(session, plan)
            await _until_ok(session, _url(plan.bind, plan.port, "/v1/models"))
    except TimeoutError:
        raise StartError(f"not everything became ready within {READY_S:.0f} s") from None


async def _settle(session: aiohttp.ClientSession, plan: Plan) -> None:
    """Wait until nothing is degraded; of real engines, only for a while."""
    page = _url(plan.bind, plan.http_port, "/readyz")
    await _until_ok(session, page)
    try:
        async with asyncio.timeout(SETTLE_S if not plan.engines else None):
            await _until_ok(session, page, whole=True)
    except TimeoutError:
        async with session.get(page) as response:
            for fault in msgspec.json.decode(await response.read())["degraded"]:
                print(f"degraded   {fault}")


async def _until_ok(session: aiohttp.ClientSession, url: str, *, whole: bool = False) -> None:
    """Poll until 200; with `whole`, also until nothing is degraded."""
    while True:
        try:
            async with session.get(url, headers={"x-request-id": PROBE_ID}) as response:
                body = await response.read()
                if response.status == 200 and not (whole and msgspec.json.decode(body)["degraded"]):
                    return
        except aiohttp.ClientError:
            pass  # not listening yet; the caller's time limit and the watched children end the wait
        await asyncio.sleep(POLL_S)


def _url(host: str, port: int, path: str) -> str:
    return f"http://[{host}]:{port}{path}" if ":" in host else f"http://{host}:{port}{path}"


def _greet(plan: Plan) -> None:
    model = next(iter(plan.models))
    for i, engine in enumerate(plan.engines, 1):
        role = f", {engine.role}" if engine.role else ""
        url = _url(engine.host, engine.port, "")
        print(f"engine-{i}   ready  {url}  (simulated, model {model}{role})")
    print(f"tokenizer  ready  {plan.socket}  ({', '.join(plan.models)})")
    print(f"router     ready  {_url(plan.bind, plan.http_port, '/')}")
    print(f"envoy      ready  {_url(plan.bind, plan.port, '')}")
    body = f'{{"model": "{model}", "messages": [{{"role": "user", "content": "{EXAMPLE}"}}]}}'
    url = _url(plan.bind, plan.port, "/v1/chat/completions")
    print(f"\nTry it, twice:\n\n  curl {url} -H 'content-type: application/json' -d '{body}'\n")
    print("One line a request follows; Ctrl-C stops everything.", flush=True)


def _show_request(line: str) -> None:
    shown = request_line(line)
    if shown is not None:
        print(shown, flush=True)


def _ignore(line: str) -> None:
    """Children that are not the router have nothing to say on standard output."""
