"""`warmroute engine`: one simulated engine."""

from __future__ import annotations

import argparse
from pathlib import Path

from simulator.config import BUNDLED_MODEL_DIR, EngineConfig
from simulator.http import serve
from tokenizer_sidecar.errors import ModelError
from warmroute import flags, log
from warmroute.errors import StartError
from warmroute.running import run as run_service

_DEFAULTS = EngineConfig()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command; names follow vLLM's where it has one."""
    parser.add_argument("--host", default=_DEFAULTS.host, help="address of HTTP and events")
    parser.add_argument("--port", type=flags.port, default=_DEFAULTS.port, help="HTTP port")
    parser.add_argument(
        "--model", type=flags.model, metavar="NAME=DIR", help="served name and tokenizer directory"
    )
    parser.add_argument("--lora", action="append", default=[], help="an adapter's name; repeatable")
    parser.add_argument("--block-size", type=flags.count, default=_DEFAULTS.block_size)
    parser.add_argument("--num-blocks", type=flags.count, default=_DEFAULTS.num_blocks)
    parser.add_argument("--max-model-len", type=flags.count, default=_DEFAULTS.max_model_len)
    parser.add_argument("--concurrency", type=flags.count, default=_DEFAULTS.concurrency)
    parser.add_argument("--prefill-s-per-token", type=float, default=_DEFAULTS.prefill_s_per_token)
    parser.add_argument("--decode-s-per-token", type=float, default=_DEFAULTS.decode_s_per_token)
    parser.add_argument("--kv-events-port", type=flags.port, default=_DEFAULTS.kv_events_port)
    parser.add_argument("--replay-port", type=flags.port, default=_DEFAULTS.replay_port)
    parser.add_argument("--topic", help="topic of the events; default: kv@HOST:PORT@MODEL")
    parser.add_argument(
        "--event-delay", type=flags.duration, default=0.0, help="hold events back, as 1s"
    )
    flags.add_switch(
        parser, "--kv-transfer", default=False, text="hand caches over, as with NixlConnector"
    )
    parser.add_argument("--ranks", type=flags.count, default=1, help="data-parallel ranks")
    parser.add_argument("--log-format", choices=("text", "json"), default="text")


def config(arguments: argparse.Namespace) -> EngineConfig:
    """What the flags say. Raises StartError."""
    model, directory = arguments.model or (_DEFAULTS.model, BUNDLED_MODEL_DIR)
    if not Path(directory).is_dir():
        raise StartError(f"--model {model}={directory}: no such directory")
    try:
        return EngineConfig(
            host=arguments.host,
            port=arguments.port,
            model=model,
            model_dir=directory,
            adapters=tuple(arguments.lora),
            block_size=arguments.block_size,
            num_blocks=arguments.num_blocks,
            max_model_len=arguments.max_model_len,
            concurrency=arguments.concurrency,
            prefill_s_per_token=arguments.prefill_s_per_token,
            decode_s_per_token=arguments.decode_s_per_token,
            kv_events_port=arguments.kv_events_port,
            replay_port=arguments.replay_port,
            topic=arguments.topic,
            event_delay_s=arguments.event_delay,
            ranks=arguments.ranks,
            kv_transfer=arguments.kv_transfer,
        )
    except ValueError as error:
        raise StartError(str(error)) from error


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal."""
    log.configure(arguments.log_format)
    chosen = config(arguments)
    return run_service(lambda ready, stop: serve(chosen, ready, stop), ModelError)
