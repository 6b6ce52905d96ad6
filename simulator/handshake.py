"""The side channel of cache transfers: asks the other engine whether it still has the blocks. IO.

A real engine reads them over NIXL; here a route of the engine's HTTP port stands for that.
"""

from __future__ import annotations

import logging
import time

import aiohttp
from aiohttp import web

from simulator.errors import ApiError
from simulator.service import service_of
from simulator.transfer import TransferAsk

HANDSHAKE_S = 5.0

log = logging.getLogger(__name__)


async def fetch(asked: TransferAsk) -> None:
    """Raises ApiError where the blocks cannot be had, which a real engine calls a server error."""
    if not asked.is_complete:
        raise _failed("incomplete parameters")
    host = f"[{asked.remote_host}]" if ":" in str(asked.remote_host) else asked.remote_host
    path = f"/kv_transfer/{asked.remote_engine_id}/{asked.remote_request_id}"
    timeout = aiohttp.ClientTimeout(total=HANDSHAKE_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"http://{host}:{asked.remote_port}{path}") as response,
        ):
            status = response.status
    except (aiohttp.ClientError, TimeoutError) as error:
        raise _failed(str(error) or "timed out") from error
    if status != 200:
        raise _failed(f"status {status}")


async def blocks(request: web.Request) -> web.Response:
    """200 for a prompt that can be fetched."""
    exports = service_of(request).exports
    engine_id, request_id = request.match_info["engine_id"], request.match_info["request_id"]
    known = exports.has(engine_id, request_id, time.monotonic())
    return web.Response(status=200 if known else 404)


ROUTES = (web.get("/kv_transfer/{engine_id}/{request_id}", blocks, allow_head=False),)


def _failed(why: str) -> ApiError:
    log.warning("transfer.failed", extra={"why": why})
    return ApiError(500, "InternalServerError", "Internal server error")
