from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import pytest

from warmroute import flags


@pytest.mark.parametrize(
    ("argv", "value"),
    [
        ([], True),
        (["--x"], True),
        (["--x=false"], False),
        (["--x=0"], False),
        (["--x", "F"], False),
        (["--x=True"], True),
    ],
    ids=str,
)
def test_switches_are_written_as_go_programs_take_them(argv: list[str], value: bool) -> None:
    parser = argparse.ArgumentParser()
    flags.add_switch(parser, "--x", default=True, text="")
    assert parser.parse_args(argv).x is value


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (flags.duration, "250ms", 0.25),
        (flags.port, "8080", 8080),
        (flags.count, "0", 0),
        (flags.octal, "660", 0o660),
        (flags.at_least_1, "1", 1),
        (flags.size, "0", 0),
        (flags.size, "1048576", 1 << 20),
        (flags.size, "512Mi", 512 << 20),
        (flags.size, "2GiB", 2 << 30),
        (flags.size, "1.5G", 1_500_000_000),
        (flags.size, "0.5Ki", 512),
        (flags.model, "a=b=c", ("a", Path("b=c"))),
    ],
)
def test_values_are_read(read: Callable[[str], object], text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (flags.boolean, "yes"),
        (flags.duration, "soon"),
        (flags.port, "0"),
        (flags.port, "65536"),
        (flags.port, "x"),
        (flags.count, "-1"),
        (flags.body_bytes, "0"),
        (flags.body_bytes, "2147483647"),
        (flags.octal, "9"),
        (flags.octal, "-7"),
        (flags.octal, "1000"),
        (flags.at_least_1, "0"),
        (flags.at_least_1, "x"),
        (flags.size, ""),
        (flags.size, "-1"),
        (flags.size, "lots"),
        (flags.size, "1gi"),
        (flags.size, "1 Gi"),
        (flags.size, "1e9"),
        (flags.model, "a"),
        (flags.model, "=b"),
        (flags.model, "a="),
    ],
)
def test_anything_else_is_refused(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"expected|got"):
        read(text)
