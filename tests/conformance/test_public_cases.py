"""Cases on which exports or runtimes are known to go wrong: each has the verdict that its kind must have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from .running import Ran, cli

OPSETS = (18, 20, 23, 24)
PLAIN = ("--latency", "none", "--dtype", "float32", "--json", "-", "--jobs", "2")

pytestmark = pytest.mark.slow

Found = dict[str, Any]  # Any: a verdict as JSON


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where reports go; the working directory is this one, from which the factories are imported."""
    made = tmp_path_factory.mktemp("public")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONNXPARITY_CACHE", str(made / "cache"))
        patch.chdir(Path(__file__).parent)
        yield made


def verify(folder: Path, *arguments: object) -> Ran:
    """One command with the document on stdout."""
    return cli("verify", *arguments, *PLAIN, "--out", folder / "report")


def verdicts(ran: Ran, part: str) -> list[Found]:
    """The verdicts whose id holds `part`; there is at least one."""
    found = [v for v in ran.document()["verdicts"] if part in v["id"]]
    assert found, (part, ran.err)
    return found


def statuses(ran: Ran, part: str) -> set[str]:
    return {v["status"] for v in verdicts(ran, part)}


def said(found: Found) -> str:
    """All that a verdict says in words."""
    return "\n".join([found["message"], *found["evidence"]])


@pytest.fixture(scope="module")
def masks(folder: Path) -> Ran:
    """A row that is masked entirely, in four encodings at four opsets, at the shape of the example."""
    names = ("mask_bool", "mask_infinite", "mask_lowest", "mask_ten_thousand")
    opsets = [part for opset in OPSETS for part in ("--opset", opset)]
    runtimes = ("--runtime", "onnx-spec", "--runtime", "ort-cpu")
    cells = ("--no-explain", "--shape", "b2-t5", "--cell", "*/example")
    return verify(folder, *(f"public_cases:{n}" for n in names), *opsets, *runtimes, *cells)


DECOMPOSED, ATTENTION = (18, 20), (23, 24)
MASKS = {
    # the masked row reads the mean of the values where PyTorch reads 0
    "mask_bool": {"onnx-float64": ("MEANING", DECOMPOSED)},
    # and NaN, where it is masked with -inf
    "mask_infinite": {"onnx-float64": ("NONFINITE", DECOMPOSED)},
    # the Attention kernel takes the lowest number for -inf, which the specification does not
    "mask_lowest": {"ort-cpu": ("ARITHMETIC", ATTENTION)},
    # far below every score and yet a number: everybody reads the mean
    "mask_ten_thousand": {},
}


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", MASKS)
def test_a_fully_masked_row_is_told_for_every_encoding_at_every_opset(masks: Ran, name: str, opset: int) -> None:
    for runtime in ("onnx-float64", "onnx-spec", "ort-cpu"):
        status, opsets = MASKS[name].get(runtime, ("PASS", ()))
        (found,) = verdicts(masks, f"public_cases-{name}/dynamo-{opset}/float32/{runtime}/")
        assert found["status"] == (status if opset in opsets else "PASS"), said(found)


def test_the_masked_row_itself_is_named(masks: Ran) -> None:
    (found,) = verdicts(masks, "mask_bool/dynamo-18/float32/onnx-float64/")
    assert found["worst"]["index"][0] == 0 and found["worst"]["index"][2] == 2
    assert found["worst"]["want"] == 0 and abs(found["worst"]["got"]) > 0.1


@pytest.fixture(scope="module")
def others(folder: Path) -> Ran:
    """The float32 cases at an opset where attention is decomposed and at one where it is an operator."""
    names = ("padding", "batch_of_one", "left_in_training", "rotary")
    flags = ("--opset", 18, "--opset", 23, "--quick", "--runtime", "ort-cpu", "--no-explain")
    return verify(folder, *(f"public_cases:{n}" for n in names), *flags)


def test_a_padding_mask_fails_when_run_at_opset_23_and_is_told_to_use_18(others: Ran) -> None:
    assert statuses(others, "padding/dynamo-18/float32/ort-cpu/") == {"PASS"}
    assert statuses(others, "padding/dynamo-23/float32/onnx-float64/") == {"PASS"}
    failed = [v for v in verdicts(others, "padding/dynamo-23/float32/ort-cpu/") if "/b1-t1/" not in v["id"]]
    assert {v["status"] for v in failed} == {"RUN_ERROR"}
    assert all("remedy: export at opset 18" in said(v) for v in failed)
    assert all("Attention" in v["message"] for v in failed), "the node's operator is named"


def test_a_batch_of_one_names_the_axis_that_would_be_constant(others: Ran) -> None:
    for found in verdicts(others, "batch_of_one/"):
        assert found["status"] == "LINT_ERROR"
        assert "'x': axis 'batch' (dim 0)" in found["message"] and "constant 1" in found["message"]
        assert any(line.startswith("remedy: ") for line in found["evidence"])


def test_a_module_in_training_mode_is_exported_in_eval_mode_and_the_report_says_so(others: Ran) -> None:
    assert statuses(others, "left_in_training/") == {"PASS"}
    told = [limit for limit in others.document()["limits"] if "training mode" in limit]
    assert len(told) == 1 and told[0].startswith("public_cases-left_in_training: ")


def test_rotary_embedding_conforms(others: Ran) -> None:
    assert statuses(others, "rotary/") == {"PASS"}


def test_rotary_embedding_runs_at_every_batch(folder: Path) -> None:
    shapes = [part for batch in (1, 2, 3) for part in ("--shape", f"b{batch}-t7")]
    flags = ("--opset", 18, "--opset", 23, "--runtime", "ort-cpu", "--cell", "*/normal")
    ran = verify(folder, "public_cases:rotary", *flags, *shapes)
    assert statuses(ran, "rotary/") == {"PASS"}
    assert {v["cell"]["shape"] for v in verdicts(ran, "/ort-cpu/")} == {"b1-t7", "b2-t7", "b3-t7"}


def test_scores_beyond_half_precision_are_not_finite_and_the_largest_is_named(folder: Path) -> None:
    flags = ("--opset", 18, "--opset", 23, "--runtime", "ort-cpu", "--cell", "*/example")
    ran = cli("verify", "public_cases:scores_beyond_half", *flags, "--latency", "none", "--json", "-", "--out", folder)
    (found,) = verdicts(ran, "dynamo-23/float16/ort-cpu/")
    assert found["status"] == "NONFINITE" and ran.code == 1
    (located,) = [place for place in ran.document()["locations"] if place["status"] == "NONFINITE"]
    words = "\n".join([located["message"], *located["evidence"]])
    assert located["node"]["operator"] == "Attention"
    assert "scores" in words and "65504" in words


def test_bfloat16_is_refused_with_operator_dtype_and_who_takes_it(folder: Path) -> None:
    ran = cli(
        *("verify", "public_cases:in_bfloat16", "--opset", 18, "--opset", 23, "--quick", "--latency", "none"),
        *("--json", "-", "--no-explain", "--out", folder),
    )
    assert statuses(ran, "/bfloat16/onnx-float64/") == statuses(ran, "/bfloat16/onnx-spec/") == {"PASS"}
    refused = verdicts(ran, "/bfloat16/ort-cpu/")
    assert {v["status"] for v in refused} == {"LOAD_ERROR"} and ran.code == 1
    assert all("Gemm-13 in bfloat16" in v["message"] and "ort-cuda" in said(v) for v in refused)


def test_bfloat16_is_left_out_of_a_runtime_that_has_none_and_the_report_says_so(folder: Path) -> None:
    flags = ("--dtype", "bfloat16", "--opset", 18, "--quick", "--latency", "none", "--json", "-", "--out", folder)
    ran = cli("verify", "causal-attention", *flags)
    assert ran.code == 0, ran.err
    assert {v["cell"]["runtime"] for v in verdicts(ran, "/bfloat16/")} == {"torch-eager", "onnx-float64", "onnx-spec"}
    assert any("ort-cpu has no kernels for bfloat16" in limit for limit in ran.document()["limits"])


def file(path: Path, nodes: list[onnx.NodeProto], *, batch: int | str, opset: int = 18, **weights: Any) -> Path:
    """An ONNX file from x (B, 4) to y (B, 4). Any: NumPy arrays."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, 4]) for name in ("x", "y")]
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "made", ends[:1], ends[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


def products(*last: onnx.NodeProto) -> list[onnx.NodeProto]:
    return [helper.make_node("MatMul", ["x", "W"], ["h"]), *last]


W = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)


def test_a_file_whose_batch_is_constant_is_told_the_axis(folder: Path) -> None:
    tanh = helper.make_node("Tanh", ["h"], ["y"])
    fixed = file(folder / "fixed.onnx", products(tanh), batch=1, W=W)
    free = file(folder / "free.onnx", products(tanh), batch="batch", W=W)
    ran = verify(folder, fixed, "--against", free, "--quick", "--runtime", "ort-cpu")
    for found in verdicts(ran, "fixed/"):
        alone = "/b1/" in found["id"]
        assert found["status"] == ("PASS" if alone else "LINT_ERROR"), said(found)
        assert alone or "'x': axis 'batch' (dim 0)" in found["message"]


@pytest.mark.parametrize("live", [True, False])
def test_dropout_in_a_file_is_a_finding_and_a_failure_where_it_is_live(folder: Path, live: bool) -> None:
    drop = helper.make_node("Dropout", ["h", "ratio", "training"], ["y"])
    flags: dict[str, Any] = {"ratio": np.float32(0.5), "training": np.array(live)}  # Any: NumPy scalars and arrays
    made = file(folder / f"dropout-{live}.onnx", products(drop), batch="batch", W=W, **flags)
    ran = verify(folder, made, "--quick", "--runtime", "ort-cpu")
    assert statuses(ran, "dropout-") == ({"LINT_ERROR"} if live else {"PASS"})
    told = [limit for limit in ran.document()["limits"] if "training-node" in limit]
    assert len(told) == 1 and "Dropout" in told[0] and "eval" in told[0]


def test_a_rotary_table_without_the_batch_is_told_how_to_mend_it(folder: Path) -> None:
    """What some exports of language models are: cos and sin of batch 1, where the kernel wants that of x."""
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 2, "tokens", 8]) for n in ("x", "y")]
    tables = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, "tokens", 4]) for n in ("cos", "sin")]
    node = helper.make_node("RotaryEmbedding", ["x", "cos", "sin"], ["y"])
    graph = helper.make_graph([node], "rotary", [ends[0], *tables], ends[1:])
    made = folder / "rotary.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), made)
    ran = verify(folder, made, "--runtime", "ort-cpu", "--shape", "b3-t5", "--cell", "*/normal", "--no-explain")
    (found,) = verdicts(ran, "/ort-cpu/")
    assert found["status"] == "RUN_ERROR" and "RotaryEmbedding" in found["message"]
    assert "remedy: export at opset 20" in said(found)
