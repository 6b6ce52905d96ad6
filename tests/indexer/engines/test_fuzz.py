"""Coverage-guided fuzz of the decoders, where the fuzzer is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.indexer import make

ROOT = Path(__file__).parents[3]
RUNS = 20_000

TARGET = """
import sys
import atheris

with atheris.instrument_imports(include=["indexer"]):
    from indexer.block import Holder
    from indexer.engines import trtllm, vllm
    from indexer.feed import Source
    from indexer.prefix_index import PrefixIndex


def one_input(data):
    batch = vllm.decode(data)
    assert batch.rejected or isinstance(batch.events, list)
    trtllm.Decoder().decode(data)
    index = PrefixIndex(16)
    feed = index.open(Source(Holder("e"), "tcp://x", base_model="tiny"))
    feed.receive([b"", bytes(8), data], 0.0)
    if not batch.events:
        assert not any(index.stats().sizes.values())


atheris.Setup(sys.argv, one_input)
atheris.Fuzz()
"""


def test_no_input_that_coverage_leads_to_makes_a_decoder_raise(tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="atheris is not installed")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number, event in enumerate((make.stored(), make.removed(), make.CLEARED)):
        (corpus / str(number)).write_bytes(make.payload(event))
    command = [sys.executable, "-c", TARGET, f"-runs={RUNS}", "-seed=1", str(corpus)]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-4000:]
