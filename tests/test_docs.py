"""The documents say what the code does: names, parameters, defaults, commands, files, links."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.__main__ import BENCHES
from indexer.block import Trust
from indexer.events import AllBlocksCleared, BlockRemoved, BlockStored
from router import catalog
from router.config.builtin import BUILTIN
from router.config.inactive import INACTIVE
from router.config.load import load
from router.errors import RouterError
from router.extproc import headers
from router.pool.discovery.file import parse as parse_endpoints
from router.producers.tokens import Missing
from router.request.parse import APIS
from router.telemetry.decisions import Decisions, Record
from router.telemetry.http import Pages, application
from router.telemetry.metrics import Metrics
from tests.router.telemetry.page.test_overview import Shop
from tests.support import markdown
from tests.support.commands import parsed
from tests.support.markdown import ROOT
from tokenizer_sidecar.metrics import PREFIX, Sources, registry
from tokenizer_sidecar.pb.tokenizer_pb2 import Outcome
from tokenizer_sidecar.stats import Stats
from warmroute import tokenizer
from warmroute.cli import COMMANDS
from warmroute.log import LEVELS

PLUGINS = markdown.read("docs/plugins.md")
HEADER = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
PARTS = ("Name.", "Description.", "Parameters.", "Inputs.", "Example.")

TERMS = frozenset(
    {
        "EPP",
        "pool",
        "endpoint",
        "candidate",
        "profile",
        "profile handler",
        "decider",
        "stage",
        "filter",
        "scorer",
        "picker",
        "producer",
        "fact",
        "decision",
        "block",
        "block hash",
        "prefix",
        "tier",
        "KV event",
        "engine key",
        "speculative entry",
        "holder",
        "identity",
        "trust",
        "waiting",
        "running",
        "KV usage",
        "in flight",
        "model server",
        "sidecar",
        "rank",
    }
)
"""The words of the code; each means one thing."""

EVERY_PLUGIN = pytest.mark.parametrize("name", catalog.ALL)
EVERY_FILE = pytest.mark.parametrize("path", list(markdown.files()), ids=str)


# -- plugins ------------------------------------------------------------------------------------


def section(name: str) -> str:
    return markdown.sections(PLUGINS)[name]


def test_the_manual_has_a_section_for_each_plugin_and_no_other() -> None:
    assert set(markdown.sections(PLUGINS)) == set(catalog.ALL)


@EVERY_PLUGIN
def test_a_section_has_the_parts_of_a_manual_page_in_order(name: str) -> None:
    assert tuple(re.findall(r"^\*\*(\w+\.)\*\*", section(name), re.MULTILINE)) == PARTS


@EVERY_PLUGIN
def test_a_section_lists_exactly_the_parameters_with_their_defaults(name: str) -> None:
    listed = {row[0].strip("`"): row[2].strip("`") for row in markdown.rows(section(name))}
    assert listed == dict(parameters(catalog.ALL[name]))


@EVERY_PLUGIN
def test_a_section_without_parameters_says_so(name: str) -> None:
    says_none = "**Parameters.** None." in section(name)
    assert says_none == (not list(parameters(catalog.ALL[name])))


@EVERY_PLUGIN
def test_the_example_of_a_section_loads_without_a_warning(name: str) -> None:
    (example,) = markdown.blocks(section(name), "yaml")
    assert load(HEADER + example).warnings == ()
    assert re.search(rf"type: {name}$", example, re.MULTILINE)


def test_the_overview_names_each_plugin_under_its_role() -> None:
    listed = {row[0]: set(re.findall(r"#([a-z0-9-]+)", row[1])) for row in overview()}
    assert listed == {
        "parser": set(catalog.PARSERS),
        "admitter": set(catalog.ADMITTERS),
        "saturation detector": set(catalog.DETECTORS),
        "profile handler": set(catalog.HANDLERS),
        "decider": set(catalog.DECIDERS),
        "built in": set(catalog.BUILT_IN),
        "filter": set(catalog.FILTERS),
        "scorer": set(catalog.SCORERS),
        "picker": set(catalog.PICKERS),
        "answer": set(catalog.ANSWERERS),
        "producer": set(catalog.PRODUCERS),
        "data source": set(catalog.SOURCES),
        "extractor": set(catalog.EXTRACTORS),
        "discovery": set(catalog.DISCOVERIES),
    }


def test_the_types_that_do_not_run_are_listed() -> None:
    table = PLUGINS.partition("\n# Accepted, and not run\n")[2]
    listed = {row[0].strip("`"): tuple(row[1:]) for row in markdown.rows(table)}
    assert listed == {kind: (entry.role, entry.why) for kind, entry in INACTIVE.items()}


def test_the_reasons_for_missing_tokens_are_all_named() -> None:
    for reason in Missing:
        assert f"`{reason}`" in section("token-producer")


def overview() -> list[list[str]]:
    return markdown.rows(PLUGINS.split("\n# ")[0])


def structure(hint: Any) -> Any:
    """The struct in `Struct | None`; anything else as it is."""
    if typing.get_origin(hint) not in (types.UnionType, typing.Union):
        return hint
    first = typing.get_args(hint)[0]
    is_struct = isinstance(first, type) and issubclass(first, msgspec.Struct)
    return first if is_struct else hint


def parameters(cls: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Dotted names as a configuration writes them, each with its default as JSON."""
    hints = typing.get_type_hints(cls)
    for field in msgspec.structs.fields(cls) if issubclass(cls, msgspec.Struct) else ():
        name, kind = prefix + field.encode_name, structure(hints[field.name])
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            yield from parameters(kind, f"{name}.")
            continue
        yield name, default(field)
        if isinstance(kind, types.GenericAlias):
            for item in typing.get_args(kind):
                if isinstance(item, type) and issubclass(item, msgspec.Struct):
                    yield from parameters(item, f"{name}[].")


def default(field: msgspec.structs.FieldInfo) -> str:
    if field.default is not msgspec.NODEFAULT:
        return msgspec.json.encode(field.default).decode()
    if field.default_factory is not msgspec.NODEFAULT:
        make: Callable[[], object] = field.default_factory
        return msgspec.json.encode(make()).decode()
    return "required"


# -- words --------------------------------------------------------------------------------------


def test_the_glossary_gives_each_term_one_line() -> None:
    lines = [ln for ln in markdown.read("docs/glossary.md").splitlines() if ln.startswith("- ")]
    listed = [re.fullmatch(r"- \*\*(.+?)\*\*: .+[.]", line) for line in lines]
    terms = [match[1] if match else "" for match in listed]
    assert terms == sorted(set(terms), key=str.lower)
    assert set(terms) >= TERMS


def test_the_glossary_explains_each_event_and_each_degree_of_trust() -> None:
    text = markdown.read("docs/glossary.md")
    for word in (*Trust, *(e.__name__ for e in (BlockStored, BlockRemoved, AllBlocksCleared))):
        assert f"`{word}`" in text


# -- what the documents point at ----------------------------------------------------------------


@EVERY_FILE
def test_links_inside_the_repository_lead_somewhere(path: Path) -> None:
    for link in markdown.links(markdown.read(path)):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (ROOT / path).parent / file if file else ROOT / path
        assert target.exists(), link
        if anchor:
            assert anchor in markdown.anchors(target.read_text()), link


@EVERY_FILE
def test_files_that_are_named_exist(path: Path) -> None:
    named = re.findall(r"`((?:[\w.-]+/)+[\w.-]*)`", markdown.prose(markdown.read(path)))
    tops = {entry.name for entry in ROOT.iterdir()}
    missing = [n for n in named if n.split("/")[0] in tops and not (ROOT / n).exists()]
    assert missing == []


@EVERY_FILE
def test_commands_that_are_shown_are_accepted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for line in shown(markdown.read(path)):
        words = shlex.split(line, comments=True)
        if words[:1] == ["make"]:
            target = words[1].partition("=")[0]
            assert re.search(rf"^{target}:", markdown.read("Makefile"), re.MULTILINE), line
        elif words[0].endswith("warmroute"):
            until = next((i for i, word in enumerate(words) if word in {">", "&", "|"}), None)
            parsed(words[1:until], monkeypatch)


def shown(text: str) -> Iterator[str]:
    """Command lines in shell blocks, continued ones joined."""
    for block in markdown.blocks(text, "sh"):
        yield from (line for line in block.replace("\\\n", " ").splitlines() if line.strip())


@EVERY_FILE
def test_pages_that_are_named_are_served(path: Path) -> None:
    resources = {r.canonical for r in application(_pages()).router.resources()}
    prose = markdown.prose(markdown.read(path))
    named = re.findall(r"`(?:GET |POST )?(/(?:debug|healthz|readyz|metrics)[^`?]*)", prose)
    assert {page for page in named if page not in resources} == set()


def test_the_readme_names_every_page_and_every_command() -> None:
    text = markdown.read("README.md")
    for resource in application(_pages()).router.resources():
        assert f" {resource.canonical}" in text, resource.canonical
    for command in COMMANDS:
        assert f"warmroute {command}" in text


def _pages() -> Pages:
    return Pages(
        metrics=Metrics(lambda _: True),
        decisions=Decisions(),
        ready=lambda: True,
        degraded=list,
        state=dict,
        overviews=Shop().overviews,
        match=lambda: None,
        max_body_bytes=1,
    )


@EVERY_FILE
def test_metrics_that_are_named_are_declared(path: Path) -> None:
    sources = "".join(p.read_text() for p in (ROOT / "router" / "telemetry").rglob("*.py"))
    sidecar = (ROOT / "tokenizer_sidecar" / "metrics.py").read_text()
    sources += sidecar.replace("{PREFIX}", PREFIX)
    sources += (ROOT / "pd_sidecar" / "metrics.py").read_text()
    prose = markdown.prose(markdown.read(path))
    for name in re.findall(r"`(?:llm_d_epp|warmroute)_(\w+)", prose):
        assert re.search(rf'"(?:\w+_)?{name.removesuffix("_total")}"', sources), name


# -- what the documents show --------------------------------------------------------------------


def test_the_readme_is_a_tour_and_no_book() -> None:
    assert len(markdown.read("README.md").splitlines()) <= 200


def test_the_readme_shows_the_configuration_that_is_built_in() -> None:
    assert BUILTIN in markdown.blocks(markdown.read("README.md"), "yaml")
    assert load(BUILTIN).warnings == ()


def test_configurations_and_endpoint_files_of_the_readme_can_be_read() -> None:
    for block in markdown.blocks(markdown.read("README.md"), "yaml"):
        if block.startswith("endpoints:"):
            assert parse_endpoints(block.encode(), "README.md").warnings == ()
        else:
            load(block)


def test_the_performance_page_lists_every_bench() -> None:
    table = markdown.sections(markdown.read("docs/performance.md"))["Benches"]
    assert [row[0].strip("`") for row in markdown.rows(table)] == list(BENCHES)


def test_the_tokenizer_page_lists_every_flag_with_its_default() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    tokenizer.add_arguments(parser)
    flags = {action.option_strings[0]: action.default for action in parser._actions}
    table = markdown.sections(markdown.read("docs/tokenizer.md"))["Flags"]
    listed = {row[0].strip("`"): row[1].strip("`") for row in markdown.rows(table)}
    assert set(listed) == set(flags)
    by_machine = {"--workers", "--model", "--metrics-port", "--socket-mode"}
    for name in set(flags) - by_machine:
        assert listed[name] == str(flags[name]).removesuffix(".0"), name
    assert int(listed["--socket-mode"], 8) == flags["--socket-mode"]


def test_the_tokenizer_page_lists_every_metric_and_outcome() -> None:
    page = markdown.read("docs/tokenizer.md")
    exposed = registry(Sources(Stats(), missing=lambda: {"m": ""})).collect()
    for family in exposed:
        assert f"`{family.name}{'_total' if family.type == 'counter' else ''}`" in page
    for outcome in set(Outcome.keys()) - {"OUTCOME_UNSPECIFIED"}:
        assert f"`{outcome.lower()}`" in page


def test_the_tour_shows_a_decision_record_with_all_its_fields() -> None:
    (shown_record,) = markdown.blocks(markdown.read("docs/tour.md"), "json")
    record = msgspec.json.decode(shown_record, type=Record)
    assert list(json.loads(shown_record)) == [f.name for f in msgspec.structs.fields(Record)]
    assert record.endpoint in record.totals


def test_the_tour_explains_each_field_of_a_decision_record() -> None:
    text = markdown.read("docs/tour.md")
    for field in msgspec.structs.fields(Record):
        assert f"`{field.name}`" in text


def test_the_page_about_observing_lists_every_finding() -> None:
    checks = (ROOT / "router" / "telemetry" / "doctor").glob("*.py")
    codes = {c for path in checks for c in re.findall(r'code="([a-z-]+)"', path.read_text())}
    table = markdown.sections(markdown.read("docs/observe.md"))["Doctor"]
    assert {row[0].strip("`") for row in markdown.rows(table)} == codes


def test_the_page_about_observing_lists_every_log_level() -> None:
    text = markdown.read("docs/observe.md")
    for level in LEVELS:
        assert f"`{level}`" in text


def test_the_protocol_page_names_every_header_that_never_passes() -> None:
    text = markdown.read("docs/ext_proc.md")
    for name in headers.REMOVED:
        assert f"`{name}`" in text


def test_the_protocol_page_lists_every_api_that_is_read() -> None:
    table = markdown.sections(markdown.read("docs/ext_proc.md"))["Which bodies are read"]
    listed: dict[str, str] = {}
    for paths, names, _ in markdown.rows(table):
        each = re.findall(r"`(.+?)`", names)
        told = re.findall(r"`(.+?)`", paths)
        listed |= dict(zip(told, each * len(told) if len(each) == 1 else each, strict=True))
    assert listed == {path: api.name for path, api in APIS.items()}


def test_the_protocol_page_lists_every_refusal() -> None:
    listed = {tuple(row) for row in markdown.rows(markdown.read("docs/ext_proc.md"))}
    for error in RouterError.__subclasses__():
        reason = f"`{error.dropped_reason}`" if error.dropped_reason else "-"
        assert (f"`{error.__name__}`", str(error.status), reason) in {row[:3] for row in listed}
