"""What is shipped: the built wheel holds our packages, whole, and works without the tree."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {"warmroute", "router", "indexer", "tokenizer_sidecar", "simulator", "pd_sidecar"}
MODEL_FILES = {
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
}

pytestmark = pytest.mark.xdist_group("wheel")  # built once, not once a process

IMPORT_ALL = """
import importlib, pathlib, pkgutil, sys
home = pathlib.Path(sys.argv[1])
for package in sys.argv[2:]:
    top = importlib.import_module(package)
    names = [m.name for m in pkgutil.walk_packages(top.__path__, package + ".")]
    for name in names:
        if not name.endswith(".__main__"):
            module = importlib.import_module(name)
            assert pathlib.Path(module.__file__).is_relative_to(home), module.__file__
    print(package, len(names))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the tree."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its content, as an installer lays it out."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_the_wheel_holds_our_packages_and_nothing_else(installed: Path) -> None:
    (info,) = installed.glob("warmroute-*.dist-info")
    assert {path.name for path in installed.iterdir()} == {*PACKAGES, info.name}


def test_every_package_is_marked_as_typed(installed: Path) -> None:
    assert {path.parent.name for path in installed.glob("*/py.typed")} == PACKAGES


def test_every_source_file_of_the_tree_is_in_the_wheel(installed: Path) -> None:
    def sources(root: Path) -> set[Path]:
        return {p.relative_to(root) for name in PACKAGES for p in (root / name).rglob("*.py")}

    assert sources(installed) == sources(ROOT)


def test_the_live_page_is_in_the_wheel(installed: Path) -> None:
    page = Path("router", "telemetry", "page", "page.html")
    assert (installed / page).read_bytes() == (ROOT / page).read_bytes()


def test_the_bundled_model_is_whole(installed: Path) -> None:
    for name in MODEL_FILES:
        shipped = installed / "simulator" / "model" / name
        assert shipped.read_bytes() == (ROOT / "simulator" / "model" / name).read_bytes()


def test_the_wheel_names_the_command_and_the_license(installed: Path) -> None:
    (info,) = installed.glob("*.dist-info")
    entries = configparser.ConfigParser()
    entries.read(info / "entry_points.txt")
    assert dict(entries["console_scripts"]) == {"warmroute": "warmroute.cli:main"}
    assert (info / "licenses" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_every_module_can_be_imported_without_the_tree(installed: Path, tmp_path: Path) -> None:
    out = _python(installed, tmp_path, "-c", IMPORT_ALL, str(installed), *sorted(PACKAGES))
    assert {line.split()[0] for line in out.splitlines()} == PACKAGES


def test_the_command_starts_without_the_tree(installed: Path, tmp_path: Path) -> None:
    out = _python(installed, tmp_path, "-m", "warmroute", "--help")
    assert "up" in out
    assert "serve" in out


def test_the_command_renders_a_bootstrap_without_the_tree(installed: Path, tmp_path: Path) -> None:
    out = _python(installed, tmp_path, "-m", "warmroute", "envoy-config")
    assert out == (ROOT / "envoy" / "original-dst.json").read_text()


def _python(installed: Path, cwd: Path, *arguments: str) -> str:
    """Standard output of an interpreter that knows the wheel and the dependencies only."""
    path: Sequence[str] = (str(installed), sysconfig.get_path("purelib"))
    done = subprocess.run(
        # -S: without it, an editable install of the tree would be found, too.
        [sys.executable, "-P", "-S", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
