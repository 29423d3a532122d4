"""`onnxparity verify FILE.onnx`, without a reference: what a file is held to, and that it comes out red where it fails.

The file is a decoder of one layer with a key-value cache, under the names that exporters give; each fault is one
change of one node.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from onnxparity.outcome import Status
from onnxparity.planning import selection

from .running import Here, cells, cli

VOCABULARY, WIDTH, LONGEST = 17, 8, 64
FAST = ("--quick", "--latency", "none", "--no-explain", "--json", "-")
SEQUENCE, PAST = "sequence_length", "past_sequence_length"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's cache, and reports go beside the file."""
    monkeypatch.setenv("ONNXPARITY_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(selection, "Worker", Here)


def node(operator: str, inputs: str, output: str, **attributes: object) -> NodeProto:
    """One node; names are separated by blanks."""
    return helper.make_node(operator, inputs.split(), [output], **attributes)  # type: ignore[arg-type]  # its attributes


def attention(*, later: str = "LessOrEqual", masked: bool = True, mixed: bool = False) -> list[NodeProto]:
    """Embedding, positions, attention over cache and new tokens, logits."""
    kept = "seen kept" if masked else "seen seen"
    return [
        node("Gather", "words input_ids", "word"),
        node("Gather", "places position_ids", "place"),
        node("Add", "word place", "x"),
        node("MatMul", "x W_q", "q"),
        node("MatMul", "x W_k", "k"),
        node("MatMul", "x W_v", "v"),
        node("Concat", "past_key_values.0.key k", "present.0.key", axis=1),
        node("Concat", "past_key_values.0.value v", "present.0.value", axis=1),
        node("Transpose", "present.0.key", "turned", perm=[0, 2, 1]),
        node("MatMul", "q turned", "scores"),
        node("Shape", "present.0.key", "length", start=1, end=2),
        node("Squeeze", "length zeros", "number"),
        node("Range", "zero number one", "keys"),
        node("Unsqueeze", "position_ids twos", "queries"),
        node(later, "keys queries", "seen"),
        node("Cast", "attention_mask", "flat", to=TensorProto.BOOL),
        node("Unsqueeze", "flat ones", "kept"),
        node("And", kept, "keep"),
        node("Where", "keep scores lowest", "masked"),
        node("Softmax", "masked", "weights", axis=-1),
        node("MatMul", "weights present.0.value", "read"),
        node("ReduceMean", "read zeros", "mean", keepdims=1) if mixed else node("Identity", "read", "mean"),
        node("Add", "mean x", "y"),
        node("MatMul", "y head", "logits"),
    ]


def write(path: Path, nodes: list[NodeProto]) -> Path:
    """The file of these nodes."""
    rng = np.random.default_rng(5)

    def tensor(name: str, dims: tuple[int | str, ...], element: int = TensorProto.INT64) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, element, dims)

    def drawn(name: str, *shape: int) -> TensorProto:
        return numpy_helper.from_array((rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32), name)

    both = f"{PAST} + {SEQUENCE}"
    cache = [f"0.{part}" for part in ("key", "value")]
    inputs = [
        tensor("input_ids", ("batch_size", SEQUENCE)),
        tensor("attention_mask", ("batch_size", both)),
        tensor("position_ids", ("batch_size", SEQUENCE)),
        *(tensor(f"past_key_values.{name}", ("batch_size", PAST, WIDTH), TensorProto.FLOAT) for name in cache),
    ]
    outputs = [
        tensor("logits", ("batch_size", SEQUENCE, VOCABULARY), TensorProto.FLOAT),
        *(tensor(f"present.{name}", ("batch_size", both, WIDTH), TensorProto.FLOAT) for name in cache),
    ]
    tables = [drawn("words", VOCABULARY, WIDTH), drawn("places", LONGEST, WIDTH), drawn("head", WIDTH, VOCABULARY)]
    tables += [drawn(f"W_{name}", WIDTH, WIDTH) for name in "qkv"]
    tables += [numpy_helper.from_array(np.asarray(-1e9, np.float32), "lowest")]
    numbers = {"zero": 0, "one": 1, "zeros": [0], "ones": [1], "twos": [2]}
    tables += [numpy_helper.from_array(np.asarray(number, np.int64), name) for name, number in numbers.items()]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, tables)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return path


def regimes(ids: list[str]) -> set[str]:
    """The last parts of cell ids."""
    return {name.rsplit("/", 1)[1] for name in ids}


def test_a_decoder_with_a_cache_is_held_to_what_it_keeps_and_every_guess_is_said(tmp_path: Path) -> None:
    write(tmp_path / "decoder.onnx", attention())
    ran = cli("verify", "decoder.onnx", *FAST)
    document = ran.document()
    assert ran.code == 0, ran.err

    asked = [v["id"].split("/") for v in document["verdicts"] if v["question"] == "property"]
    held = {"batch-invariance", "padding-invariance", "masked-content", "causality", "prefill-decode"}
    assert {parts[-1] for parts in asked} == held | {"determinism"}
    assert {parts[3] for parts in asked} == {"onnx-float64", "ort-cpu"}
    said = " ".join(document["limits"])
    for guess in (
        "'position_ids' is taken for positions",
        "'attention_mask' is taken for a mask",
        "'present.0.value' is taken for what input 'past_key_values.0.value'",
        "batch-invariance is assumed",
        "causality holds in float64",
        "prefill-decode holds in float64",
        "nothing is said on meaning",
    ):
        assert guess in said, guess


def test_a_decoder_that_looks_ahead_is_red_once_causality_is_asked_of_it(tmp_path: Path) -> None:
    write(tmp_path / "ahead.onnx", attention(later="GreaterOrEqual"))
    ran = cli("verify", "ahead.onnx", "--property", "causality", *FAST)
    document = ran.document()
    assert ran.code == 1
    red = [v for v in document["verdicts"] if v["status"] == "PROPERTY"]
    assert regimes([v["id"] for v in red]) == {"causality"}
    assert {v["id"].split("/")[3] for v in red} == {"onnx-float64", "ort-cpu"}
    for verdict in red:
        assert "Later tokens cannot move earlier outputs" in verdict["evidence"][0]
        own = "the file itself does not keep it" in " ".join(verdict["evidence"])
        assert own == ("onnx-float64" in verdict["id"])

    (ort,) = [v for v in red if "ort-cpu" in v["id"]]
    again = cli(*ort["command"].split()[1:], *FAST[1:]).document()
    assert [(v["id"], v["status"]) for v in again["verdicts"]] == [(ort["id"], "PROPERTY")]


@pytest.mark.parametrize(
    ("fault", "regime"),
    [({"masked": False}, "masked-content"), ({"mixed": True}, "batch-invariance")],
    ids=["mask not read", "batch mixed"],
)
def test_a_file_that_breaks_what_its_names_promise_is_red_without_being_asked(
    tmp_path: Path, fault: dict[str, bool], regime: str
) -> None:
    write(tmp_path / "broken.onnx", attention(**fault))  # type: ignore[arg-type]  # flags of attention
    ran = cli("verify", "broken.onnx", *FAST)
    assert ran.code == 1
    assert regime in regimes(cells(ran.document(), Status.PROPERTY))


def test_a_role_that_is_given_changes_what_is_fed(tmp_path: Path) -> None:
    write(tmp_path / "decoder.onnx", attention())
    ran = cli("verify", "decoder.onnx", "--role", "attention_mask=mask-drop", *FAST)
    document = ran.document()
    (mask,) = [i for i in document["subjects"][0]["inputs"] if i["name"] == "attention_mask"]
    assert mask["mask_meaning"] == "drop"
    assert "padding-invariance" in regimes(cells(document, Status.PROPERTY)), "under this meaning padding leaks"
    assert "'attention_mask' is mask-drop, as --role says" in " ".join(document["limits"])


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--property", "causal"), "did you mean causality"),
        (("--property", "window"), "says no size"),
        (("--role", "attention_masc=mask-drop"), "did you mean attention_mask"),
        (("--role", "attention_mask=drop"), "mask-drop"),
        (("--role", "attention_mask"), "is not a pair"),
    ],
)
def test_what_cannot_be_said_of_a_file_is_an_error_with_a_remedy(
    tmp_path: Path, flags: tuple[str, ...], said: str
) -> None:
    write(tmp_path / "decoder.onnx", attention())
    ran = cli("verify", "decoder.onnx", *flags, *FAST)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err and "Traceback" not in ran.err


def test_a_property_that_the_file_has_nothing_for_is_red_with_what_to_say(tmp_path: Path) -> None:
    write(tmp_path / "decoder.onnx", attention())
    ran = cli("verify", "decoder.onnx", "--property", "simplex", *FAST)
    document = ran.document()
    assert ran.code == 1
    (verdict,) = [v for v in document["verdicts"] if v["id"].endswith("ort-cpu/b2-t17-p11/simplex")]
    assert verdict["status"] == "RUN_ERROR"
    assert any("--role OUTPUT=weights" in line for line in verdict["evidence"])
