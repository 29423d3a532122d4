"""The layout holds: who may import whom, what a wheel holds, what is public; and each check can fail."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import onnxparity
from tests.meta.layout import HUB, LONGEST, PACKAGE, SPOKES, import_faults, long_files, packaging_faults, sources

ROOT = Path(__file__).resolve().parents[2]
HUB_MODULES = sorted(
    ".".join((PACKAGE, *path.relative_to(HUB).with_suffix("").parts)).removesuffix(".__init__")
    for path in sources(ROOT)
    if path.is_relative_to(HUB) and path.stem != "__main__"
)

PYPROJECT = """[tool.setuptools]
packages = ["onnxparity", "onnxparity.commands", "onnxparity.models"]
[tool.setuptools.package-dir]
"onnxparity" = "src/onnxparity"
"onnxparity.models" = "models"
[tool.setuptools.package-data]
"onnxparity" = ["py.typed"]
"onnxparity.models" = ["*.toml"]
"""


def write(root: Path, files: dict[str, str]) -> Path:
    """A tree of files."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def test_the_import_rule_holds() -> None:
    assert import_faults(ROOT) == []


def test_the_import_rule_is_checked_on_every_file() -> None:
    found = set(sources(ROOT))
    assert {Path("src/onnxparity/numerics/compare.py"), Path("src/onnxparity/commands/verify.py")} <= found
    assert {Path(f"{spoke}/__init__.py") for spoke in SPOKES} <= found
    assert len(found) == len({path.name + str(path.parent.name) for path in found}) > 60


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("src/onnxparity/feeds.py", "from onnxparity.models.entry import Entry"),
        ("src/onnxparity/feeds.py", "from onnxparity import models"),
        ("src/onnxparity/feeds.py", "import onnxparity.models"),
        ("src/onnxparity/feeds.py", "import torch"),
        ("src/onnxparity/feeds.py", "from rich.table import Table"),
        ("src/onnxparity/feeds.py", "from .case import Subject"),
        ("src/onnxparity/feeds.py", "from models import entry"),
        ("src/onnxparity/feeds.py", "def f():\n    from onnxparity.models import entry"),
        ("src/onnxparity/feeds.py", "def f():\n    import_module('onnxparity.models.entry')"),
        ("src/onnxparity/numerics/budget.py", "class A:\n    def f(self):\n        import onnxparity.export"),
        ("src/onnxparity/numerics/budget.py", "try:\n    import onnx\nexcept ImportError:\n    pass"),
        ("src/onnxparity/case.py", "if TYPE_CHECKING:\n    from onnxparity.models.entry import Entry"),
        ("src/onnxparity/cli.py", "from onnxparity.reports.html import render_html"),
        ("src/onnxparity/authoring.py", "if True:\n    from onnxparity.export.produce import produce"),
        ("src/onnxparity/commands/report.py", "from onnxparity.reports.html import render_html"),
        ("src/onnxparity/commands/report.py", "class A:\n    import onnxparity.reports.html"),
        ("src/onnxparity/commands/verify.py", "import onnxruntime"),
        ("models/blocks.py", "from onnxparity.export.graph import Graph"),
        ("models/blocks.py", "def f():\n    import onnxparity.runtimes.ort"),
        ("models/blocks.py", "if TYPE_CHECKING:\n    from onnxparity.runtimes import ort"),
        ("models/blocks.py", "import importlib\nimportlib.import_module('onnxparity.reports.html')"),
        ("models/blocks.py", "from models.norms import Norm"),
        ("models/blocks.py", "from . import norms"),
        ("reports/html.py", "from onnxparity import models"),
    ],
)
def test_each_import_rule_can_be_broken(tmp_path: Path, name: str, text: str) -> None:
    (fault,) = import_faults(write(tmp_path, {name: text}))
    assert fault.startswith(name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("src/onnxparity/feeds.py", "import hashlib\nimport numpy as np\nfrom onnxparity.case import Subject"),
        ("src/onnxparity/feeds.py", "from onnxparity import case, grid"),
        ("src/onnxparity/cli.py", "def f():\n    from onnxparity.reports.html import render_html"),
        ("src/onnxparity/commands/report.py", "from rich.table import Table\ndef f():\n    import onnxparity.reports"),
        ("src/onnxparity/authoring.py", "if TYPE_CHECKING:\n    from torch import nn\ndef f():\n    import torch"),
        (
            "models/blocks.py",
            "import torch\nfrom onnxparity.models.norms import N\nfrom onnxparity.case import Axis",
        ),
        ("models/blocks.py", "from onnxparity import case, models"),
        ("tests/test_all.py", "from models import entry"),
    ],
)
def test_what_the_import_rule_allows(tmp_path: Path, name: str, text: str) -> None:
    assert import_faults(write(tmp_path, {name: text})) == []


def test_a_wheel_holds_every_package_and_data_file() -> None:
    assert packaging_faults(ROOT) == []


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("src/onnxparity/numerics/compare.py", "onnxparity.numerics is on disk and not in packages"),
        ("models/deep/er/block.py", "onnxparity.models.deep.er is on disk and not in packages"),
        ("src/onnxparity/schema.json", "src/onnxparity/schema.json is not in package-data of onnxparity"),
        ("models/weights.npz", "models/weights.npz is not in package-data of onnxparity.models"),
        ("src/onnxparity/commands/py.typed", "py.typed is not in package-data of onnxparity.commands"),
    ],
)
def test_what_a_wheel_would_lack_is_found(tmp_path: Path, name: str, fault: str) -> None:
    whole = {
        "pyproject.toml": PYPROJECT,
        "src/onnxparity/__init__.py": "",
        "src/onnxparity/py.typed": "",
        "src/onnxparity/commands/__init__.py": "",
        "models/__init__.py": "",
        "models/known.toml": "",
        "models/__pycache__/block.pyc": "",
    }
    assert packaging_faults(write(tmp_path, whole)) == []
    (tmp_path / HUB / "models").symlink_to("../../models")
    assert packaging_faults(tmp_path) == []
    faults = packaging_faults(write(tmp_path, {name: ""}))
    assert len(faults) == 1 and faults[0].endswith(fault)


def test_a_listed_package_that_is_not_there_is_found(tmp_path: Path) -> None:
    files = {"pyproject.toml": PYPROJECT, "src/onnxparity/__init__.py": "", "models/__init__.py": ""}
    assert packaging_faults(write(tmp_path, files)) == ["onnxparity.commands is in packages and not on disk"]


def run(program: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in the root of the checkout, where the folders lie."""
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_folder_cannot_be_imported_under_its_own_name() -> None:
    program = """
import importlib
for name in ("models", "export", "runtimes", "reports", "models.entry"):
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(f"{name}: {error}")
"""
    found = run(program).stdout.splitlines()
    expected = [(n, n.split(".")[0]) for n in (*SPOKES, "models.entry")]
    assert found == [
        f"{name}: import onnxparity.{top}, not {top}: a second copy would not share its registrations"
        for name, top in expected
    ]


def test_the_folders_are_the_packages_of_their_name() -> None:
    for spoke in SPOKES:
        module = importlib.import_module(f"{PACKAGE}.{spoke}")
        assert Path(str(module.__file__)).resolve() == ROOT / spoke / "__init__.py"
        assert (ROOT / HUB / spoke).resolve() == ROOT / spoke


@pytest.mark.parametrize("name", HUB_MODULES)
def test_what_a_hub_module_calls_public_exists(name: str) -> None:
    module = importlib.import_module(name)
    if hasattr(module, "__path__") and name != PACKAGE:
        return  # a folder says what it is for, and offers nothing itself
    public = module.__all__
    assert public and len(set(public)) == len(public)
    assert [n for n in public if not hasattr(module, n)] == []
    assert not [n for n in public if n.startswith("_") and n != "__version__"]


def test_the_public_names_of_the_package_are_these() -> None:
    assert onnxparity.__all__ == ["OnnxParityError", "Report", "Status", "Verdict", "__version__", "verify"]
    assert all(getattr(onnxparity, name) is not None for name in onnxparity.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = onnxparity.no_such_name


def test_importing_the_package_and_reading_reports_loads_no_framework() -> None:
    done = run("import onnxparity, onnxparity.record, onnxparity.gate, onnxparity.cli, sys; print(*sys.modules)")
    assert not {"torch", "onnx", "onnxruntime", "onnxscript"} & set(done.stdout.split())
    assert "onnxparity.record" in done.stdout.split()


def test_no_file_is_too_long() -> None:
    assert long_files(ROOT) == []


@pytest.mark.parametrize("name", ["src/onnxparity/feeds.py", "models/blocks.py", "reports/report.css"])
def test_a_file_that_is_too_long_is_found(tmp_path: Path, name: str) -> None:
    assert long_files(write(tmp_path, {name: "\n" * LONGEST})) == []
    assert long_files(write(tmp_path, {name: "\n" * (LONGEST + 1)})) == [f"{name} has {LONGEST + 1} lines"]


@pytest.mark.parametrize("check", [import_faults, long_files])
def test_a_check_of_an_empty_tree_finds_nothing_so_the_real_tree_must_not_be_empty(
    tmp_path: Path, check: Callable[[Path], list[str]]
) -> None:
    assert check(tmp_path) == []
    assert len(list(sources(ROOT))) > 60 and len(HUB_MODULES) > 30
