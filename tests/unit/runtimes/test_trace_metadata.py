"""What the exporter left on a node says which module and which of the user's lines it comes from."""

from __future__ import annotations

import pytest
from onnx import NodeProto, helper

from onnxparity.runtimes.node_metadata import described, shortest_paths

TORCH = '  File "/opt/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 134, in forward\n    return F.x(x)'
OURS = 'File "/home/me/project/attention.py", line 41, in forward\n    q = split(self.query(x))'


def node(name: str = "node", **properties: str) -> NodeProto:
    made = helper.make_node("MatMul", ["x", "w"], ["y"], name=name)
    for key, value in properties.items():
        made.metadata_props.add(key=f"pkg.torch.onnx.{key}", value=value)
    return made


def source(stack: str) -> str:
    return described([node(stack_trace=stack)])[0].source


def test_the_innermost_line_of_the_users_own_is_told_and_not_pytorchs() -> None:
    assert source(f"{OURS}\n{TORCH}") == "attention.py:41: q = split(self.query(x))"


def test_a_line_of_the_outer_module_gives_way_to_one_of_the_inner() -> None:
    outer = 'File "/home/me/project/block.py", line 7, in forward\n    y = x + self.attention(x)'
    assert source(f"{outer}\n  {OURS}") == "attention.py:41: q = split(self.query(x))"


def test_a_helper_is_told_with_the_line_that_calls_it() -> None:
    helper_frame = '  File "/home/me/project/heads.py", line 3, in split\n    return x.unflatten(-1, (4, -1))'
    assert source(f"{OURS}\n{helper_frame}") == (
        "attention.py:41: q = split(self.query(x)) > heads.py:3: return x.unflatten(-1, (4, -1))"
    )


def test_a_library_is_told_where_the_stack_has_nothing_of_the_users_own() -> None:
    library = 'File "/opt/venv/lib/python3.11/site-packages/zoo/bert.py", line 5, in forward\n    x = self.dense(x)'
    assert source(f"{library}\n{TORCH}") == "bert.py:5: x = self.dense(x)"


@pytest.mark.parametrize(
    "stack",
    [
        "",
        TORCH,
        'File "torch/fx/passes/runtime_assert.py", line 24, in insert_deferred_runtime_asserts',
        "no stack at all",
    ],
)
def test_nothing_is_told_where_nothing_says(stack: str) -> None:
    assert source(stack) == ""


def test_no_path_of_a_machine_is_told() -> None:
    lines = [
        'File "/home/me/a/model.py", line 1, in forward\n    a',
        'File "/home/me/b/model.py", line 2, in forward\n    b',
        'File "C:\\work\\model\\other.py", line 3, in forward\n    c',
    ]
    nodes = described([node(stack_trace=stack) for stack in lines])
    assert [n.source for n in nodes] == ["a/model.py:1: a", "b/model.py:2: b", "other.py:3: c"]


def test_paths_are_as_short_as_they_can_be_told_apart() -> None:
    paths = ["/x/a/m.py", "/y/a/m.py", "/y/n.py"]
    assert shortest_paths(paths) == {"/x/a/m.py": "x/a/m.py", "/y/a/m.py": "y/a/m.py", "/y/n.py": "n.py"}


@pytest.mark.parametrize(
    ("name", "properties", "module"),
    [
        ("node", {"name_scopes": "['', 'encoder', 'encoder.layers.0', 'linear_3']"}, "encoder.layers.0"),
        ("node", {"name_scopes": "['', 'add']"}, ""),
        ("node", {"name_scopes": "['_empty_nn_module_stack_from_metadata_hook', 'sym_size']"}, ""),
        ("node", {"name_scopes": "not a list"}, ""),
        ("node", {"name_scopes": "['only']"}, ""),
        ("/encoder/layers.0/attention/MatMul", {}, "encoder.layers.0.attention"),
        ("plain", {}, ""),
    ],
)
def test_the_innermost_module_is_told(name: str, properties: dict[str, str], module: str) -> None:
    assert described([node(name, **properties)])[0].module == module
