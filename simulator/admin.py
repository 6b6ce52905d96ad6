"""The routes around generating: models, adapters, health, load, metrics, cache. IO."""

from __future__ import annotations

import secrets
import time
from typing import Any

from aiohttp import web

from simulator import metrics
from simulator.events import BUFFER_STEPS, endpoint
from simulator.responses import VERSION
from simulator.service import Service, json_body, json_response, service_of

_HWM = 100_000
"""Queue limits that vLLM's configuration states by default."""


async def alive(request: web.Request) -> web.Response:
    return web.Response()


async def version(request: web.Request) -> web.Response:
    return json_response({"version": VERSION})


async def load(request: web.Request) -> web.Response:
    return json_response({"server_load": service_of(request).in_flight})


async def models(request: web.Request) -> web.Response:
    """The base model first, then its adapters."""
    service = service_of(request)
    config, now_s = service.config, int(time.time())
    cards = [_card(config.model, str(config.model_dir), None, config.context_tokens, now_s)]
    cards += [
        _card(adapter.name, adapter.path, config.model, None, now_s)
        for adapter in service.served.adapters
    ]
    return json_response({"object": "list", "data": cards})


async def metrics_text(request: web.Request) -> web.Response:
    text = service_of(request).metrics.render()
    return web.Response(body=text, headers={"Content-Type": metrics.CONTENT_TYPE})


async def kv_event_sources(request: web.Request) -> web.Response:
    """Where each rank's events are; `*` in an address is for the reader to fill in."""
    service = service_of(request)
    return json_response(
        {str(number): _source(service, number) for number in range(len(service.ranks))}
    )


async def reset_prefix_cache(request: web.Request) -> web.Response:
    """Refused by each rank that has requests holding blocks."""
    done = [rank.engine.reset() for rank in service_of(request).ranks]
    return json_response({"success": all(done)})


async def load_lora_adapter(request: web.Request) -> web.Response:
    body, _ = await json_body(request)
    name = body.get("lora_name")
    service_of(request).served.load(name, body.get("lora_path"))
    return web.Response(text=f"Success: LoRA adapter '{name}' added successfully.")


async def unload_lora_adapter(request: web.Request) -> web.Response:
    body, _ = await json_body(request)
    name = body.get("lora_name")
    service_of(request).served.unload(name)
    return web.Response(text=f"Success: LoRA adapter '{name}' removed successfully.")


ROUTES = (
    web.get("/health", alive, allow_head=False),
    web.get("/ping", alive, allow_head=False),
    web.post("/ping", alive),
    web.get("/version", version, allow_head=False),
    web.get("/load", load, allow_head=False),
    web.get("/v1/models", models, allow_head=False),
    web.get("/metrics", metrics_text, allow_head=False),
    web.get("/kv_event_sources", kv_event_sources, allow_head=False),
    web.post("/reset_prefix_cache", reset_prefix_cache),
    web.post("/v1/load_lora_adapter", load_lora_adapter),
    web.post("/v1/unload_lora_adapter", unload_lora_adapter),
)


def _source(service: Service, number: int) -> dict[str, Any]:
    publisher = service.ranks[number].publisher
    host = service.config.host
    replay_port = publisher.replay_port if publisher else None
    return {
        "enable_kv_cache_events": publisher is not None,
        "publisher": "zmq" if publisher else "null",
        "endpoint": endpoint(host, publisher.port if publisher else 5557),
        "replay_endpoint": None if replay_port is None else endpoint(host, replay_port),
        "buffer_steps": BUFFER_STEPS,
        "hwm": _HWM,
        "max_queue_size": _HWM,
        "topic": service.topic,
    }


def _card(
    name: str, root: str, parent: str | None, max_model_len: int | None, now_s: int
) -> dict[str, Any]:
    permission = {
        "id": f"modelperm-{secrets.token_hex(8)}",
        "object": "model_permission",
        "created": now_s,
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }
    return {
        "id": name,
        "object": "model",
        "created": now_s,
        "owned_by": "vllm",
        "root": root,
        "parent": parent,
        "max_model_len": max_model_len,
        "permission": [permission],
    }
