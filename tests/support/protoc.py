"""Generates the gRPC code from proto/: `python -m tests.support.protoc FOLDER`. IO.

The folder stands for the root of the repository: code lands beside the package that owns the
contract, under the import path it is used by.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]

CONTRACTS = (
    ("router/extproc/pb", "ext_proc"),
    ("router/extproc/pb", "health"),
    ("tokenizer_sidecar/pb", "tokenizer"),
    ("tokenizer_sidecar/pb", "tokenization"),
)
"""Folder of the generated code, and name of its .proto file."""

MESSAGES_ONLY = frozenset({"health"})
"""Contracts that declare no service."""

MESSAGES = ("_pb2.py", "_pb2.pyi")
SERVICES = ("_pb2_grpc.py", "_pb2_grpc.pyi")


def generated() -> list[Path]:
    """Every generated file, relative to the root."""
    return [
        Path(package) / f"{name}{suffix}"
        for package, name in CONTRACTS
        for suffix in (MESSAGES if name in MESSAGES_ONLY else MESSAGES + SERVICES)
    ]


def generate(folder: Path) -> None:
    """Run protoc once per contract. Raises CalledProcessError."""
    # The plugins lie beside the interpreter, which need not be on the PATH.
    bin_folder = str(Path(sys.executable).parent)
    path = os.pathsep.join((bin_folder, os.environ.get("PATH", os.defpath)))
    for package, name in CONTRACTS:
        subprocess.run(
            [sys.executable, "-m", "grpc_tools.protoc", *_arguments(package, name, folder)],
            cwd=ROOT,
            env={**os.environ, "PATH": path},
            check=True,
            capture_output=True,
            text=True,
        )


def _arguments(package: str, name: str, folder: Path) -> list[str]:
    out = folder.resolve()
    plugins = ["python", "mypy"]
    if name not in MESSAGES_ONLY:
        plugins += ["grpc_python", "mypy_grpc"]
    return [
        # The sources lie elsewhere than their code: this path makes the generated imports right.
        f"-I{package}=proto",
        f"-I{_well_known()}",
        *(f"--{plugin}_out={out}" for plugin in plugins),
        f"{package}/{name}.proto",
    ]


def _well_known() -> Path:
    """Where google/protobuf/*.proto lie; found without importing the compiler."""
    spec = find_spec("grpc_tools")
    if spec is None or spec.origin is None:
        raise RuntimeError("grpcio-tools is not installed")
    return Path(spec.origin).parent / "_proto"


if __name__ == "__main__":
    generate(Path(sys.argv[1]))
