"""Rules about the repository as a whole: IO in named places, twins of modules, generated code."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.support.protoc import generate, generated

ROOT = Path(__file__).parents[1]
PACKAGES = ("indexer", "pd_sidecar", "router", "simulator", "tokenizer_sidecar", "warmroute")

IO_MODULES = frozenset(
    {
        "aiohttp",
        "asyncio",
        "concurrent",
        "grpc",
        "logging",
        "socket",
        "structlog",
        "subprocess",
        "threading",
        "time",
        "zmq",
    }
)
"""What a module needs that waits, talks, looks at the clock or logs."""

READS_FILES = {"router/telemetry/page/document.py", "simulator/language.py"}
"""Modules that say IO because they read files, for which no import tells."""

_LOADED = "tests/router/config/test_load.py: a configuration is loaded as a whole"

_MOTOR = "tests/router/config/test_motor.py: a file is loaded as a whole"

_EXPLAINED = "tests/warmroute/test_check.py: by what is printed"

EXCUSED: Mapping[str, str] = {
    "indexer/conductor/fleet.py": "tests/indexer/conductor/test_conductor.py: shapes without code",
    "indexer/conductor/workers.py": "tests/indexer/conductor/test_http.py: what /workers answers",
    "router/catalog.py": "tests/router/scheduling/test_laws.py, tests/test_docs.py",
    "pd_sidecar/config.py": "tests/warmroute/test_pd_sidecar.py: values without code",
    "pd_sidecar/connectors/alone.py": "tests/pd_sidecar/test_encode.py: media without prefill",
    "pd_sidecar/connectors/prefill.py": "tests/pd_sidecar/connectors/test_nixlv2.py: its users",
    "pd_sidecar/connectors/table.py": "tests/warmroute/test_pd_sidecar.py: by name",
    "pd_sidecar/connectors/types.py": "tests/pd_sidecar/connectors/test_nixlv2.py: shapes",
    "pd_sidecar/errors.py": "tests/pd_sidecar/test_proxy.py: what clients see",
    "pd_sidecar/stats.py": "tests/pd_sidecar/test_metrics.py: what is shown",
    "router/config/builtin.py": _LOADED,
    "router/config/data_layer.py": _LOADED,
    "router/config/errors.py": _LOADED,
    "router/config/explain.py": _EXPLAINED,
    "router/config/filled.py": _EXPLAINED,
    "router/config/notes.py": _EXPLAINED,
    "router/config/motor_file.py": _MOTOR,
    "router/config/motor_notes.py": _MOTOR,
    "router/config/motor_schema.py": _MOTOR,
    "router/config/plugins.py": _LOADED,
    "router/config/producers.py": _LOADED,
    "router/config/profiles.py": _LOADED,
    "router/config/schema.py": _LOADED,
    "router/describe.py": "tests/router/test_director.py: what the records say",
    "router/config/wrapped.py": _LOADED,
    "router/errors.py": "tests/router/extproc/test_reply.py, tests/test_docs.py: what clients see",
    "router/extproc/headers.py": "tests/router/extproc/test_exchange.py, tests/test_docs.py",
    "router/lineup.py": "tests/router/test_director.py: who takes part",
    "router/policy.py": "tests/router/test_director.py: by what becomes of requests",
    "router/pool/sources.py": "tests/router/config/test_load.py, tests/test_docs.py: parameters",
    "router/producers/prefix_parameters.py": "tests/router/producers/test_prefix.py: by effect",
    "router/producers/topology.py": "tests/warmroute/test_crew.py: what it states",
    "router/producers/types.py": "tests/router/test_director.py: who calls them",
    "router/request/bodies.py": "tests/router/request/test_parse.py: what all APIs share",
    "router/request/openai.py": "tests/router/request/test_parse.py: its only caller",
    "router/request/types.py": "tests/router/request/test_parse.py: what is made",
    "router/routed.py": "tests/router/test_director.py: who makes and ends it",
    "router/scheduling/profiles/built_in.py": "tests/router/config/test_handlers.py: no effect",
    "router/scheduling/profiles/single.py": "tests/router/test_director.py: decides there",
    "router/scheduling/types.py": "tests/router/scheduling/test_schedule.py: shapes without code",
    "router/telemetry/buckets.py": "tests/router/telemetry/test_counts.py: where they are used",
    "router/telemetry/doctor/case.py": "tests/router/telemetry/doctor/test_doctor.py: by finding",
    "router/telemetry/doctor/finding.py": "tests/router/telemetry/doctor/test_doctor.py: as JSON",
    "router/surroundings.py": "tests/router/test_director.py: shapes without code",
    "warmroute/__main__.py": "tests/test_wheel.py: it is how the command is run there",
    "warmroute/bootstrap.py": "tests/test_envoy_bootstraps.py: by what is rendered",
    "warmroute/clusters.py": "tests/test_envoy_bootstraps.py: by what is rendered",
    "warmroute/engine.py": "tests/test_compose.py, tests/end_to_end/test_up.py: as used",
    "warmroute/envoy_settings.py": "tests/test_envoy_bootstraps.py: by what is rendered",
    "warmroute/errors.py": "tests/warmroute/test_cli.py: one line on the terminal",
    "warmroute/builder.py": "tests/warmroute/test_crew.py: by what runs",
    "warmroute/event_follower.py": "tests/end_to_end/test_chats.py: by what the index knows",
    "warmroute/router_process.py": "tests/end_to_end/test_chats.py: likewise",
    "warmroute/up.py": "tests/end_to_end/test_up.py: it starts everything",
}
"""Module without a test of its own -> the tests that cover it, and why there."""

SKIPPED_FOLDERS = {"__pycache__", "build", "captures", "dist", "model"}
"""Besides hidden ones: what is not written by hand."""

MACHINE_PATHS = tuple(f"/{folder}/" for folder in ("work", "root", "home", "tmp"))


def modules() -> Iterator[Path]:
    """Our modules, relative to the root; generated code apart."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "pb" not in path.parts and path.name != "__init__.py":
                yield path.relative_to(ROOT)


def twin(module: Path) -> Path:
    return Path("tests") / module.parent / f"test_{module.name}"


def first_line(module: Path) -> str:
    docstring = ast.get_docstring(ast.parse((ROOT / module).read_text()))
    return docstring.splitlines()[0] if docstring else ""


def says_io(module: Path) -> bool:
    # "IO" as a sentence of its own, or the start of one: "without IO" is no such claim.
    return re.search(r"[.!?] IO\b", first_line(module)) is not None


def imported(module: Path) -> Iterator[str]:
    """Top-level names of everything the module imports, wherever it does."""
    for node in ast.walk(ast.parse((ROOT / module).read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module.partition(".")[0]


def texts() -> Iterator[Path]:
    """Every file written by hand."""
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        hidden = any(part.startswith(".") and part != ".ci" for part in parts)
        if path.is_file() and not hidden and not SKIPPED_FOLDERS & set(parts):
            yield path.relative_to(ROOT)


def test_every_module_says_in_its_first_line_what_it_is() -> None:
    assert [str(m) for m in modules() if not re.match(r".+[.:]", first_line(m))] == []


def test_only_modules_that_say_io_do_io() -> None:
    silent = {str(m): IO_MODULES & set(imported(m)) for m in modules() if not says_io(m)}
    assert {module: found for module, found in silent.items() if found} == {}


def test_every_module_that_says_io_does_io() -> None:
    pure = {str(m) for m in modules() if says_io(m) and not IO_MODULES & set(imported(m))}
    assert pure == READS_FILES


def test_the_import_contract_lists_the_modules_that_say_io() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = (c for c in contracts["contracts"] if "say IO" in c["name"])
    listed = {entry.removesuffix(" -> *") for entry in contract["ignore_imports"]}
    saying = {".".join(m.with_suffix("").parts) for m in modules() if says_io(m)}
    exempt = {".".join(Path(m).with_suffix("").parts) for m in READS_FILES}
    assert {entry for entry in listed if not entry.endswith(".pb.*")} == saying - exempt
    assert set(contract["forbidden_modules"]) == IO_MODULES


def test_every_module_has_a_test_of_its_name() -> None:
    missing = [str(m) for m in modules() if not (ROOT / twin(m)).exists()]
    assert [module for module in missing if module not in EXCUSED] == []


@pytest.mark.parametrize("module", sorted(EXCUSED))
def test_an_excused_module_needs_its_excuse(module: str) -> None:
    assert (ROOT / module).exists(), "the module is gone"
    assert not (ROOT / twin(Path(module))).exists(), "it has a test of its own now"
    named = re.findall(r"tests/[\w/]+\.py", EXCUSED[module])
    assert named, "the excuse names no test"
    for test in named:
        assert (ROOT / test).exists(), f"{test} is gone"


def test_the_generated_code_is_what_proto_says(tmp_path: Path) -> None:
    generate(tmp_path)
    for path in generated():
        assert (tmp_path / path).read_text() == (ROOT / path).read_text(), path
    made = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert made == set(generated())


def calls(of: str, within: ast.AST) -> Iterator[ast.Call]:
    """Calls of a function by its name."""
    for node in ast.walk(within):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == of:
            yield node


def findings() -> Iterator[str]:
    """The code of each finding the doctor may make."""
    for path in (ROOT / "router/telemetry/doctor").glob("*.py"):
        for call in calls("Finding", ast.parse(path.read_text())):
            (code,) = (keyword.value for keyword in call.keywords if keyword.arg == "code")
            assert isinstance(code, ast.Constant), f"{path.name}:{call.lineno} names no code"
            yield str(code.value)


def found() -> Iterator[str]:
    """The code of each finding that an end-to-end test waits for."""
    for path in (ROOT / "tests/end_to_end").glob("test_doctor*.py"):
        tests = ast.parse(path.read_text()).body
        for test in tests:
            if isinstance(test, ast.AsyncFunctionDef) and test.name.startswith("test_"):
                for call in calls("found", test):
                    code = call.args[1]
                    assert isinstance(code, ast.Constant), f"{path.name}:{call.lineno}"
                    yield str(code.value)


def test_every_finding_has_a_test_that_causes_it_in_real_processes() -> None:
    assert set(found()) == set(findings())


def test_no_file_names_a_folder_of_somebodys_machine() -> None:
    named = {
        f"{path}: {folder}"
        for path in texts()
        for folder in MACHINE_PATHS
        if folder in (ROOT / path).read_text(errors="replace")
    }
    assert named == set()


def test_what_is_imported_is_a_dependency_by_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = (entry for group in project["optional-dependencies"].values() for entry in group)
    declared = {re.split(r"[>=<]", entry)[0] for entry in [*project["dependencies"], *extras]}
    ours = {*PACKAGES, *sys.stdlib_module_names}
    wanted = {name for module in modules() for name in imported(module)} - ours
    providers = packages_distributions()
    unnamed = {
        name
        for name in wanted
        if not declared & {each.lower().replace("_", "-") for each in providers.get(name, ())}
    }
    assert unnamed == set()


def test_make_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    described = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert targets == described == set(phony.split())
