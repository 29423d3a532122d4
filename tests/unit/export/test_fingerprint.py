"""The cache key: the same for the same export in any process, another for anything that could change the file."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from onnxparity.case import Subject
from onnxparity.export import fingerprint
from onnxparity.export.dynamo import DynamoExporter
from onnxparity.export.fingerprint import cache_key
from onnxparity.plan import ArtifactKey

MakeSubject = Callable[..., Subject]
Change = Callable[["Block"], object]


@dataclass
class Config:
    """A configuration object, as many modules keep one."""

    window: int = 3


class Block(nn.Module):
    """Holds one of each kind of thing that can change what forward computes."""

    limit = 5

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.tied = nn.Linear(4, 4)
        self.register_buffer("hidden", torch.ones(2), persistent=False)
        self.heads = 2
        self.scale: float = 0.5
        self.kind = "causal"
        self.sizes = (1, 2)
        self.config = Config()
        self.table = torch.ones(3)
        self.array = np.ones(3)
        self.options = {"a": [1, {2}]}
        self.unregistered = [nn.Linear(2, 2)]
        self.act: Callable[[Tensor], Tensor] = torch.relu

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.act(self.linear(x))
        return out


@pytest.fixture
def block() -> Block:
    torch.manual_seed(0)
    return Block().eval()


@pytest.fixture
def digest(make_subject: MakeSubject) -> Callable[[nn.Module], str]:
    """The key of a module, all else equal."""

    def make(module: nn.Module) -> str:
        key = ArtifactKey("small", "dynamo", 20, "float32")
        return cache_key(module, (torch.ones(2, 4),), make_subject({"x": ("batch", 4)}), key, "dynamo")

    return make


def test_equal_modules_have_one_key(digest: Callable[[nn.Module], str]) -> None:
    keys = []
    for _ in range(2):
        torch.manual_seed(0)
        keys.append(digest(Block().eval()))

    assert keys[0] == keys[1]


def nudge(tensor: Tensor) -> None:
    with torch.no_grad():
        tensor.view(-1)[0] += 1e-6


CHANGES: dict[str, Change] = {
    "a weight": lambda b: nudge(b.linear.weight),
    "a buffer that is not saved": lambda b: nudge(b.get_buffer("hidden")),
    "a weight's dtype": lambda b: b.linear.half(),
    "a tied weight": lambda b: setattr(b.tied, "weight", b.linear.weight),
    "an integer": lambda b: setattr(b, "heads", 4),
    "a float": lambda b: setattr(b, "scale", 0.25),
    "a string": lambda b: setattr(b, "kind", "full"),
    "a tuple": lambda b: setattr(b, "sizes", (1, 3)),
    "a field of a dataclass": lambda b: setattr(b.config, "window", 4),
    "a plain tensor": lambda b: b.table.add_(1),
    "an array": lambda b: b.array.__iadd__(1),
    "something nested": lambda b: b.options["a"].append(0),
    "a module in a plain list": lambda b: nudge(b.unregistered[0].weight),
    "a function": lambda b: setattr(b, "act", torch.tanh),
    "a lambda": lambda b: setattr(b, "act", lambda x: x * 2),
    "a child's attribute": lambda b: setattr(b.norm, "eps", 1e-6),
    "a child's class": lambda b: setattr(b, "norm", nn.RMSNorm(4)),
    "a hook": lambda b: b.linear.register_forward_hook(lambda *_: None),
    "an own forward": lambda b: setattr(b, "forward", lambda x: x),
    "training mode": lambda b: b.train(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_whatever_the_module_holds_is_in_the_key(block: Block, digest: Callable[[nn.Module], str], name: str) -> None:
    before = digest(block)
    CHANGES[name](block)

    assert digest(block) != before


def test_two_lambdas_differ_by_their_constants_and_what_they_close_over(
    block: Block, digest: Callable[[nn.Module], str]
) -> None:
    def scaled(factor: float) -> Callable[[Tensor], Tensor]:
        return lambda x: x * factor

    keys = []
    for act in (lambda x: x * 2, lambda x: x * 3, scaled(2.0), scaled(3.0)):
        block.act = act
        keys.append(digest(block))

    assert len(set(keys)) == 4


def test_a_patched_method_a_class_constant_and_a_patched_function_of_torch_count(
    block: Block, digest: Callable[[nn.Module], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [digest(block)]
    for target, name, value in (
        (Block, "forward", lambda self, x: x),
        (Block, "limit", 6),
        (nn.LayerNorm, "forward", lambda self, x: x),
        (nn.functional, "softmax", lambda x, dim: x),
        (nn.functional, "scaled_dot_product_attention", lambda q, k, v: v),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(target, name, value)
            keys.append(digest(block))

    assert len(set(keys)) == 6
    assert digest(block) == keys[0]


def test_a_tensor_that_cannot_be_read_equals_nothing(block: Block, digest: Callable[[nn.Module], str]) -> None:
    block.table = torch.ones(3, device="meta")

    assert digest(block) != digest(block)


def test_what_refers_to_itself_ends(block: Block, digest: Callable[[nn.Module], str]) -> None:
    block.options["self"] = block.options  # type: ignore[assignment]  # a cycle on purpose

    assert digest(block) == digest(block)


class Sealed:
    """Does not say what it is."""

    def __repr__(self) -> str:
        raise RuntimeError("sealed")


def test_what_cannot_be_described_equals_nothing_and_breaks_nothing(
    block: Block, digest: Callable[[nn.Module], str]
) -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    for value in (deep, Sealed()):
        block.unregistered = value  # type: ignore[assignment]  # anything at all
        assert digest(block) != digest(block)


def test_what_is_asked_is_in_the_key(block: Block, make_subject: MakeSubject) -> None:
    subject, key, x = make_subject({"x": ("batch", 4)}), ArtifactKey("small", "dynamo", 20, "float32"), torch.ones(2, 4)
    other_axis = replace(subject, axes=(replace(subject.axes[0], high=64),))
    dims = [{0: torch.export.Dim("batch", max=n)} for n in (8, 9)]
    keys = [
        cache_key(block, (x,), subject, key, "dynamo"),
        cache_key(block, (x,), subject, replace(key, opset=23), "dynamo"),
        cache_key(block, (x,), subject, replace(key, dtype="float16"), "dynamo"),
        cache_key(block, (x,), subject, replace(key, subject="other"), "dynamo"),
        cache_key(block, (x,), subject, key, "other"),
        cache_key(block, (x,), subject, key, "dynamo", options=("external_data_above=1",)),
        cache_key(block, (x,), subject, key, "dynamo", exporter=DynamoExporter),
        cache_key(block, (torch.ones(3, 4),), subject, key, "dynamo"),
        cache_key(block, (x.half(),), subject, key, "dynamo"),
        cache_key(block, (x, 1), subject, key, "dynamo"),
        cache_key(block, (x,), subject, key, "dynamo", kwargs={"flag": True}),
        cache_key(block, (x,), subject, key, "dynamo", kwargs={"flag": False}),
        cache_key(block, (x,), subject, key, "dynamo", kwargs={"other": False}),
        cache_key(block, (x,), subject, key, "dynamo", (dims[0],)),
        cache_key(block, (x,), subject, key, "dynamo", (dims[1],)),
        cache_key(block, (x,), subject, key, "dynamo", ({0: torch.export.Dim.DYNAMIC},)),
        cache_key(block, (x,), make_subject({"x": (2, 4)}), key, "dynamo"),
        cache_key(block, (x,), make_subject({"x": ("batch", 4)}, ["z"]), key, "dynamo"),
        cache_key(block, (x,), other_axis, key, "dynamo"),
    ]

    assert len(set(keys)) == len(keys)


def test_the_examples_values_do_not_count(block: Block, make_subject: MakeSubject) -> None:
    subject, key = make_subject({"x": ("batch", 4)}), ArtifactKey("small", "dynamo", 20, "float32")

    assert len({cache_key(block, (torch.randn(2, 4),), subject, key, "dynamo") for _ in range(2)}) == 1


def test_a_new_version_of_torch_is_another_key(
    block: Block, digest: Callable[[nn.Module], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = digest(block)
    monkeypatch.setattr(fingerprint, "_version", lambda name: "3.0" if name == "torch" else "1.0")

    assert digest(block) != before


PACKAGE = {
    "__init__.py": "",
    "model.py": (
        "import torch\nfrom {name}.near import shift\n"
        "class Net(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        from . import lazy\n"
        "        return shift(x) + lazy.VALUE\n"
    ),
    "near.py": "from .far import AMOUNT\ndef shift(x):\n    return x + AMOUNT\n",
    "far.py": "AMOUNT = 1\n",
    "lazy.py": "VALUE = 1\n",
    "unrelated.py": "NOTHING = 1\n",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's package on disk: a module, a helper, the helper's helper, and one imported inside forward."""
    name = f"users_{tmp_path.name}".replace("-", "_")
    folder = tmp_path / name
    folder.mkdir()
    for file, text in PACKAGE.items():
        (folder / file).write_text(text.replace("{name}", name))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for loaded in [m for m in sys.modules if m.partition(".")[0] == name]:
        del sys.modules[loaded]


@pytest.mark.parametrize("file", ["model.py", "near.py", "far.py", "lazy.py"])
def test_a_changed_source_file_changes_the_key(package: Path, digest: Callable[[nn.Module], str], file: str) -> None:
    net = importlib.import_module(f"{package.name}.model").Net().eval()
    before = digest(net)
    assert digest(net) == before
    (package / file).write_text((package / file).read_text() + "\n# changed\n")

    assert digest(net) != before


def test_a_file_that_nothing_imports_does_not_count(package: Path, digest: Callable[[nn.Module], str]) -> None:
    net = importlib.import_module(f"{package.name}.model").Net().eval()
    before = digest(net)
    (package / "unrelated.py").write_text("NOTHING = 2\n")

    assert digest(net) == before


def test_a_module_loaded_by_name_counts(package: Path, digest: Callable[[nn.Module], str]) -> None:
    net = importlib.import_module(f"{package.name}.model").Net().eval()
    importlib.import_module(f"{package.name}.unrelated")
    before = digest(net)
    (package / "unrelated.py").write_text("NOTHING = 2\n")

    assert digest(net) != before


def test_a_helper_patched_in_memory_counts(package: Path, digest: Callable[[nn.Module], str]) -> None:
    net = importlib.import_module(f"{package.name}.model").Net().eval()
    before = digest(net)
    importlib.import_module(f"{package.name}.far").AMOUNT = 2  # type: ignore[attr-defined]  # the user's own name

    assert digest(net) != before


STANDALONE = """
import torch
from {name}.model import Net
from onnxparity.case import Axis, OutputSpec, Subject, TensorSpec
from onnxparity.export.fingerprint import cache_key
from onnxparity.plan import ArtifactKey
subject = Subject("s", "factory", "o", "s", "s", (TensorSpec("x", ("batch", 4)),), (OutputSpec("y", (None,)),),
                  (Axis("batch", "b", "batch"),))
net = Net().eval()
net.options = {{"one", "two", "three"}}
net.encoder = torch.nn.TransformerEncoderLayer(8, 2, 8).eval().requires_grad_(False)
for p in net.parameters():
    p.fill_(1)
print(cache_key(net, (torch.ones(2, 4),), subject, ArtifactKey("s", "dynamo", 20, "float32"), "dynamo"))
"""


def test_the_key_is_the_same_in_every_process(package: Path) -> None:
    script = STANDALONE.format(name=package.name)
    keys = {
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=package.parent,
            env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin", "PYTHONPATH": str(package.parent)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(keys) == 1
    assert len(keys.pop().strip()) == 64
