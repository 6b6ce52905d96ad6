"""Coverage-guided fuzz of the decoders, where the fuzzer is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.indexer import make
from tests.indexer.engines.test_trtllm import CREATED, TWO

ROOT = Path(__file__).parents[3]
RUNS = 20_000

TARGET = """
import sys
import atheris

with atheris.instrument_imports(include=["indexer"]):
    from indexer.block import Holder, Identity
    from indexer.engines import trtllm, vllm
    from indexer.feed import Source
    from indexer.hashing import pack
    from indexer.prefix_index import PrefixIndex


PROMPT = pack(range(64))
STORED = bytes.fromhex(sys.argv.pop())


def facts(index):
    return index.stats().sizes, index.match([Identity("tiny")], PROMPT, 0.0).matches


def one_input(data):
    trtllm.Decoder().decode(data)
    batch = vllm.decode(data)
    assert batch.rejected or isinstance(batch.events, list)
    index = PrefixIndex(16)
    feed = index.open(Source(Holder("e"), "tcp://x", base_model="tiny"))
    feed.receive([b"", bytes(8), STORED], 0.0)
    before = facts(index)
    assert before[1][Holder("e")].blocks == 4
    feed.receive([b"", bytes(7) + b"\\1", data], 0.0)
    if not batch.events:
        assert facts(index) == before


atheris.Setup(sys.argv, one_input)
atheris.Fuzz()
"""


def test_no_input_that_coverage_leads_to_makes_a_decoder_raise(tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="atheris is not installed")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    array = ["BlockStored", [5], None, make.prompt(1), 16, None, "GPU", {"cache_salt": "s"}]
    for number, event in enumerate((make.stored(), array, make.removed(), make.CLEARED)):
        (corpus / str(number)).write_bytes(make.payload(event))
    tensorrt = [{"event_id": n, "data": data} for n, data in enumerate((CREATED, TWO))]
    (corpus / "tensorrt").write_text(json.dumps(tensorrt))
    known = make.payload(make.stored()).hex()
    command = [sys.executable, "-c", TARGET, f"-runs={RUNS}", "-seed=1", str(corpus), known]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-4000:]
