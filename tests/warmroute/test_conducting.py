"""The conductor's API beside a router; what it answers is told end to end."""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path

import aiohttp
import zmq

from indexer.events import BlockStored
from indexer.hashing import pack
from router.config.load import load
from router.pool.pool import Pool
from router.producers.prefix import PrecisePrefix
from router.producers.prefix_parameters import PrecisePrefixParameters
from tests.support import make
from tests.support.ports import free_port
from tests.support.processes import until
from warmroute import serve
from warmroute.conducting import Conducting
from warmroute.event_follower import EventFollower

A = "127.0.0.1:8000"


class Counting(EventFollower):
    """Counts how often it looks for streams."""

    looks = 0

    def sync(self) -> None:
        self.looks += 1
        super().sync()


def motor(port: int, seconds: int) -> str:
    conductor = {
        "block_size": 16,
        "http_server_port": port,
        "model_path": "m",
        "re_register_interval_sec": seconds,
    }
    scheduler = {"scheduler_type": "kv_cache_affinity"}
    return json.dumps(
        {
            "motor_coordinator_config": {"scheduler_config": scheduler},
            "kv_conductor_config": conductor,
        }
    )


def options(*argv: str) -> serve.Options:
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    return serve.options(parser.parse_args(["--endpoints=e", "--bind-address=127.0.0.1", *argv]))


async def test_streams_are_looked_for_again_and_what_is_held_stays(tmp_path: Path) -> None:
    port = free_port()
    config = load(motor(port, 1))
    assert config.motor is not None
    pool = Pool([make.endpoint(A, name="pod")])
    parameters = config.plugins["precise-prefix-cache-producer"].parameters
    assert isinstance(parameters, PrecisePrefixParameters)
    prefix = PrecisePrefix(
        "prefix",
        parameters,
        resolve=pool.resolve_model,
        clock=time.monotonic,
        notified=False,
        base_model="m",
        media=config.motor.media,
    )
    with zmq.Context() as context:
        follower = Counting(context, prefix, pool)
        chosen = options(f"--state-dir={tmp_path}")
        conducting = Conducting(config.motor, prefix, follower, pool, context, chosen)
        try:
            async with asyncio.TaskGroup() as group, aiohttp.ClientSession() as session:
                await conducting.start(group)
                url = f"http://127.0.0.1:{port}"
                registration = {"instance_id": "e", "modelname": "m", "block_size": 16}
                async with session.post(f"{url}/register", json=registration) as response:
                    assert response.status == 201
                holder = next(iter(conducting._conductor.registry)).holder
                stored = BlockStored([11], None, pack(range(16)), 16, "gpu")
                prefix.index.ledger(holder).apply(stored, "m")
                before = follower.looks
                await until(lambda: follower.looks >= before + 2)
                asked = {"model": "m", "block_size": 16, "token_ids": list(range(16))}
                async with session.post(f"{url}/query", json=asked) as response:
                    answer = await response.json()
                assert answer["default"]["e"]["longest_matched"] == 16
                await conducting.stop()
        finally:
            follower.close()
