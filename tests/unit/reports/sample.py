"""Reports to render: a small one with every status in it, an empty one, one that conforms and a large one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from onnxparity.artifact import Artifact, FileInput
from onnxparity.case import Axis, OutputSpec, Subject, TensorSpec
from onnxparity.gate import conclude
from onnxparity.location import Location, Node, TensorStatistics
from onnxparity.outcome import Expectation, OutputMetrics, Question, Status, Verdict, Worst
from onnxparity.plan import ArtifactKey, Cell
from onnxparity.protocols import Availability, Placement
from onnxparity.record import Latency, Report, summarise

CUDA_REASON = "libcublasLt.so.12: cannot open shared object file: No such file or directory"
CUDA_LIMIT = f"Nothing is said about ort-cuda: {CUDA_REASON}."
BATCH, SEQUENCE = Axis("batch", "b", "batch"), Axis("sequence", "t", "sequence", high=512)
PAST = Axis("past", "p", "past", low=0)
CAUSAL_20 = ArtifactKey("causal-attention", "dynamo", 20, "float32")
CAUSAL_23 = ArtifactKey("causal-attention", "dynamo", 23, "float32")
CAUSAL_16 = ArtifactKey("causal-attention", "dynamo", 23, "float16")
CAUSAL_TORCH = ArtifactKey("causal-attention", "torch", None, "float32")
ENCODER_18 = ArtifactKey("transformer-encoder-block", "dynamo", 18, "float32")
ENCODER_23 = ArtifactKey("transformer-encoder-block", "dynamo", 23, "float32")
ENCODER_16 = ArtifactKey("transformer-encoder-block", "dynamo", 23, "float16")
DECODER = ArtifactKey("decoder-with-kv-cache", "dynamo", 23, "float32")
DECODER_16 = ArtifactKey("decoder-with-kv-cache", "dynamo", 23, "float16")
GIVEN = ArtifactKey("acme.ranker", "file", 17, "float32")
TOO_NEW = ArtifactKey("acme.ranker", "dynamo", 26, "float32")
UNSUPPORTED_MASK = Expectation(
    cells="transformer-encoder-block/dynamo-23/*/ort-cpu/*/right-padding",
    status=Status.RUN_ERROR,
    reason="Attention 23 on the CPU provider refuses a mask whose query dim is 1",
    link="https://example.org/issues/4711?a=1&b=2",
)
OUTLIVED = Expectation(
    cells="acme.ranker/file-17/float32/ort-cpu/b1-t7/tiny",
    status=Status.ARITHMETIC,
    reason="flushed subnormals",
    link="https://example.org/issues/815",
)


def metrics(output: str, ratio: float, *, dtype: str = "float32", logits: bool = False) -> OutputMetrics:
    """Metrics of one output whose worst vector used `ratio` of its budget."""
    broken = not math.isfinite(ratio)
    return OutputMetrics(
        output=output,
        dtype=dtype,
        shape=(2, 17, 64),
        elements=2176,
        ratio=ratio,
        budget=3.1e-6,
        over_noise=None if broken else 8 * ratio,
        max_abs=None if broken else 2.4e-6 * ratio,
        max_rel=None if broken else 3.1e-6 * ratio,
        max_ulp=None if broken else 41.0,
        rms=None if broken else 4.0e-7 * ratio,
        cosine=None if broken else 0.99999988,
        snr_db=None if broken else 128.4,
        p50_abs=None if broken else 1.0e-7,
        p99_abs=None if broken else 9.5e-7,
        nonfinite_got=34 if broken else 0,
        nonfinite_want=0,
        top1_agreement=0.9971 if logits else None,
        kl_divergence=2.2e-5 if logits else None,
    )


def verdict(
    key: ArtifactKey,
    where: str,
    status: Status = Status.PASS,
    question: Question = "arithmetic",
    ratio: float | None = None,
    message: str = "",
    *,
    worst: Worst | None = None,
    evidence: tuple[str, ...] = (),
    outputs: tuple[OutputMetrics, ...] | None = None,
    expectation: Expectation | None = None,
    found: Status | None = None,
    seconds: float | None = 0.25,
) -> Verdict:
    """The verdict of `runtime/shape/regime` in one artifact."""
    cell = Cell(key, *where.split("/"))
    measured = (metrics("output", ratio, dtype=key.dtype),) if ratio is not None else ()
    return Verdict(
        cell=cell,
        status=status,
        question=question,
        message=message or "within budget",
        ratio=ratio,
        outputs=measured if outputs is None else outputs,
        worst=worst,
        evidence=evidence,
        expectation=expectation,
        found=found,
        seconds=seconds,
        command=f"onnxparity verify --only '{cell.id}'",
    )


def passes(key: ArtifactKey, runtime: str, question: Question, ratios: Sequence[float]) -> list[Verdict]:
    """One passing cell for each ratio, over shapes and regimes in turn."""
    shapes, regimes = ("b1-t1", "b2-t17", "b3-t127"), ("normal", "saturated", "outlier-channels", "long-positions")
    return [
        verdict(key, f"{runtime}/{shapes[n % 3]}/{regimes[n % 4]}", question=question, ratio=ratio)
        for n, ratio in enumerate(ratios)
    ]


def failing() -> list[Verdict]:
    """One cell for every status that is not a plain pass."""
    worst = Worst("output", (1, 12, 40), 0.8125, 0.7998046875)
    return [
        verdict(
            CAUSAL_16,
            "ort-cpu/b2-t17/saturated",
            Status.ARITHMETIC,
            ratio=27.4,
            message="rounds 27.4 times as much as float16 allows for this graph on these inputs",
            worst=worst,
            evidence=(
                "first tensor over its budget: softmax_1 (Softmax, layers.0.attention)",
                "model.py:41: attn = scores.softmax(-1)",
            ),
            outputs=(metrics("output", 27.4, dtype="float16", logits=True), metrics("weights", 0.4, dtype="float16")),
        ),
        verdict(
            CAUSAL_16,
            "ort-cpu/b1-t1024/scores-beyond-float16",
            Status.NONFINITE,
            ratio=math.nan,
            message="34 values are NaN where the exact value is finite",
            worst=Worst("output", (0, 3, 0), math.nan, -1.25),
        ),
        verdict(
            ENCODER_18,
            "onnx-reference/b2-t17/normal",
            Status.MEANING,
            "meaning",
            412.0,
            "not the same function: 5.1e-05 apart in float64, 1.2e-07 is explained by constants",
            worst=Worst("output", (0, 16, 5), 1.0000512, 1.0),
            evidence=("diverges between layers.11.mlp.fc1 and the output", "model.py:88: x = gelu(x)"),
        ),
        verdict(
            DECODER,
            "ort-cpu/b2-t9-p8/prefill-equals-decode",
            Status.PROPERTY,
            "property",
            math.inf,
            "step 9 of decoding differs from prefill: the cache was not advanced",
            evidence=("compared: logits of 9 single steps against one prefill of 9",),
        ),
        verdict(
            DECODER,
            "ort-cpu/b2-t9-p0/normal",
            Status.STRUCTURE,
            message="output names differ: expected {logits, present_key}, got {logits}",
        ),
        verdict(
            DECODER_16,
            "ort-cpu/b2-t9-p8/normal",
            Status.CRASH,
            message="the worker died: signal 11 (SIGSEGV)",
            evidence=("last words: Fatal Python error: Segmentation fault",),
        ),
        verdict(DECODER_16, "ort-cpu/b2-t127-p8/normal", Status.TIMEOUT, message="ended after 120 s", seconds=120.0),
        verdict(
            DECODER_16,
            "ort-cuda/b2-t9-p8/normal",
            Status.FALLBACK,
            message="asked for CUDAExecutionProvider, 14 of 52 nodes ran on CPUExecutionProvider",
        ),
        verdict(
            TOO_NEW,
            "onnx-reference/b1-t7/normal",
            Status.EXPORT_ERROR,
            "meaning",
            message="asked for opset 26, got 18",
            evidence=("remedy: ask for 18 to 25",),
        ),
        verdict(
            GIVEN,
            "onnx-reference/b1-t7/normal",
            Status.LINT_ERROR,
            "meaning",
            message="dim 'batch' was asked to be dynamic and is 1 in the file",
        ),
        verdict(
            GIVEN,
            "ort-cpu/b1-t7/normal",
            Status.LOAD_ERROR,
            message="Load model failed: Unsupported | `IR` version <14>",
        ),
        verdict(
            GIVEN,
            "ort-cpu/b2-t7/normal",
            Status.RUN_ERROR,
            message="Got invalid dimensions for input: x\nindex 0: Got: 2 Expected: 1",
        ),
        verdict(
            GIVEN,
            "ort-cpu/b1-t7/tiny",
            Status.XPASS,
            ratio=0.2,
            message="expected ARITHMETIC, but it passes: remove the expectation (within budget)",
            expectation=OUTLIVED,
            found=Status.PASS,
        ),
        verdict(
            ENCODER_23,
            "ort-cpu/b2-t17/right-padding",
            Status.XFAIL,
            message="Attention: mask of shape (2, 1, 1, 17) is refused",
            expectation=UNSUPPORTED_MASK,
            found=Status.RUN_ERROR,
        ),
        verdict(
            ENCODER_16,
            "ort-cpu/b2-t17/right-padding",
            Status.XFAIL,
            message="Attention: mask of shape (2, 1, 1, 17) is refused",
            expectation=UNSUPPORTED_MASK,
            found=Status.RUN_ERROR,
        ),
        verdict(CAUSAL_23, "ort-cuda/b2-t17/normal", Status.UNAVAILABLE, message=CUDA_REASON, evidence=(CUDA_LIMIT,)),
        verdict(CAUSAL_20, "ort-cuda/b2-t17/normal", Status.SKIP, message="left out with --skip ort-cuda"),
        verdict(
            CAUSAL_20,
            "ort-cpu/b3-t129/normal",
            Status.MISSING,
            message="planned, and no outcome was recorded",
            seconds=None,
        ),
    ]


def verdicts() -> tuple[Verdict, ...]:
    """Passing cells first, then everything that went wrong."""
    return (
        *passes(CAUSAL_TORCH, "torch-eager", "oracle", (0.0, 0.02, 0.4, 0.11)),
        *passes(CAUSAL_20, "onnx-reference", "meaning", (0.0, 0.01, 0.03)),
        *passes(CAUSAL_20, "ort-cpu", "arithmetic", (0.31, 0.22, 0.9996, 0.4)),
        *passes(CAUSAL_23, "onnx-reference", "meaning", (0.004, 0.01)),
        *passes(CAUSAL_23, "ort-cpu", "arithmetic", (0.12, 0.5, 0.33, 1.0)),
        verdict(CAUSAL_23, "ort-cpu/b2-t17/causality", question="property", ratio=0.0),
        *passes(CAUSAL_16, "onnx-reference", "meaning", (0.2,)),
        *passes(ENCODER_18, "ort-cpu", "arithmetic", (0.07, 0.21)),
        *passes(ENCODER_23, "ort-cpu", "arithmetic", (0.08, 0.24)),
        *passes(ENCODER_16, "ort-cpu", "arithmetic", (0.18,)),
        *failing(),
    )


def subjects() -> tuple[Subject, ...]:
    """What the artifacts were made from."""
    features = TensorSpec("x", ("batch", "sequence", 64))
    output = OutputSpec("output", ("batch", "sequence", 64))
    mask = TensorSpec("mask", ("batch", "sequence"), "bool", "mask", 0, 1, "keep")
    past = TensorSpec("past_key", ("batch", 4, "past", 16), role="past")
    return (
        Subject(
            "causal-attention",
            "catalogue",
            "causal-attention",
            "Vaswani et al. 2017, section 3.2",
            "Multi-head self-attention in which no position sees a later one",
            (features,),
            (output, OutputSpec("weights", ("batch", 4, "sequence", "sequence"), "weights")),
            (BATCH, SEQUENCE),
            ("causality", "batch-invariance", "determinism"),
            parameters=16640,
        ),
        Subject(
            "transformer-encoder-block",
            "catalogue",
            "transformer-encoder-block",
            "Vaswani et al. 2017, section 3.1",
            "Pre-norm encoder block with a key padding mask",
            (features, mask),
            (output,),
            (BATCH, SEQUENCE),
            ("padding-invariance",),
            parameters=49984,
        ),
        Subject(
            "decoder-with-kv-cache",
            "catalogue",
            "decoder-with-kv-cache",
            "Radford et al. 2019",
            "One decoding step over a key/value cache",
            (TensorSpec("tokens", ("batch", "sequence"), "int64", "tokens", 0, 999), past),
            (
                OutputSpec("logits", ("batch", "sequence", 1000), "logits"),
                OutputSpec("present_key", ("batch", 4, "past+sequence", 16), "present"),
            ),
            (BATCH, SEQUENCE, PAST),
            ("prefill-equals-decode",),
            roles={"present_key": "past_key"},
        ),
        Subject(
            "acme.ranker",
            "onnx",
            "build/ranker.onnx",
            "the user",
            "",
            (TensorSpec("x", (1, "sequence", 64), "float32"),),
            (OutputSpec("score", (1, None)),),
            (BATCH, SEQUENCE),
            dtypes=("float32",),
        ),
    )


def artifact(key: ArtifactKey, *, got: int | None = None, warnings: tuple[str, ...] = ()) -> Artifact:
    """A file of 1 to 2 MiB as the exporter would record it."""
    asked = key.opset or 0
    return Artifact(
        key=key,
        path=f"onnxparity-report/artifacts/{key.id}.onnx",
        sha256=f"{asked:02x}" + "5f1c0e7a9b3d2468" * 3 + "ace0135792468b",
        bytes=1_572_864 + asked,
        external_data=False,
        opset_asked=asked,
        opset_got=asked if got is None else got,
        ir_version=10,
        domains={"pkg.onnxscript.torch_lib.common": 1},
        inputs=(FileInput("x", key.dtype, ("batch", "sequence", 64)),),
        outputs=(FileInput("output", key.dtype, ("batch", "sequence", None)),),
        op_census={"MatMul": 6, "Softmax": 2, "Add": 9, "Transpose": 8},
        initializer_bytes=1_310_720,
        seconds=None if key.exporter == "file" else 1.3,
        cached=False,
        warnings=warnings,
        producer="pytorch 2.13.0",
    )


def series(key: ArtifactKey, runtime: str, timings: dict[int, float]) -> list[Latency]:
    """Latency at batch 1 over length, in ms."""
    return [
        Latency(
            key,
            runtime,
            f"b1-t{length}",
            (p50, p50 * 1.01, p50 * 1.2, p50 * 0.98),
            p50,
            p50 * 1.2,
            p50 * 1.5,
            warmup_runs=12,
            turns=4,
            threads=2,
            conforms=True,
        )
        for length, p50 in timings.items()
    ]


def latencies() -> tuple[Latency, ...]:
    """Series for two subjects, one of them with numbers that are withheld."""
    withheld = "not timed: the same artifact and runtime do not conform"
    return (
        *series(CAUSAL_23, "ort-cpu", {16: 0.21, 64: 0.55, 128: 1.34, 512: 9.8}),
        *series(CAUSAL_TORCH, "torch-eager", {16: 0.32, 64: 0.71, 128: 1.6, 512: 12.5}),
        *series(ENCODER_23, "ort-cpu", {16: 0.4, 128: 2.41}),
        Latency(CAUSAL_16, "ort-cpu", "b1-t16", (), None, None, None, 0, 0, None, False, withheld),
        dataclasses.replace(
            series(ENCODER_18, "ort-cpu", {128: 2.2})[0], note="unstable: p90 moved by 31 %; close other programs"
        ),
    )


def location() -> Location:
    """What a red property leads back to."""
    red = next(v for v in failing() if v.status is Status.PROPERTY)
    line = "decoder.py:88: present = torch.cat([past, key], dim=-2)"
    return Location(
        cell=red.cell,
        status=red.status,
        message="Concat puts the new key before the past ones",
        origin="injected",
        node=Node("Concat", "node_cat_1", ("key", "past_key"), ("present_key",), "decoder.layers.0.attention", line),
        region=7,
        nodes=52,
        smallest_shape="b1-t1-p1",
        evidence=("error 0.91 at the node, 3.1e-07 of it explained by its inputs",),
        statistics=(
            TensorStatistics("present_key", (1, 4, 2, 16), "float32", "got", -2.5, 2.25, 0.01, 0.98, 0),
            TensorStatistics("present_key", (1, 4, 2, 16), "float64", "want", -2.5, 2.25, 0.01, 0.98, 0),
        ),
        reproduction="reproductions/decoder-with-kv-cache-1",
        explains=(red.cell.id,),
    )


def another_meaning() -> Location:
    """What a red meaning leads back to: nothing measured in one tensor, more in evidence, no reproduction."""
    red = next(v for v in failing() if v.status is Status.MEANING)
    node = Node("Gelu", "node_gelu_11", ("val_3",), ("gelu",), "layers.11.mlp", "model.py:88: x = gelu(x)")
    nothing = TensorStatistics("scalar", (), "bool", "input", None, None, None, None, 0)
    return Location(
        cell=red.cell,
        status=red.status,
        message="Gelu node_gelu_11 in layers.11.mlp (model.py:88: x = gelu(x)): approximate is tanh, not none",
        origin="injected",
        node=node,
        region=3,
        nodes=412,
        smallest_shape="b1-t1",
        evidence=("approximate is tanh, not none", "the reference computes there: aten.gelu.default gelu_11"),
        statistics=(nothing, TensorStatistics("gelu", (1, 1, 256), "float64", "got", -0.17, math.inf, 0.2, 1.1, 1)),
        explains=(red.cell.id, f"{red.cell.artifact.id}/{red.cell.runtime}/b3-t7/normal"),
    )


def no_node() -> Location:
    """What an error of running leads back to: no node, and the smallest shape."""
    red = next(v for v in failing() if v.status is Status.RUN_ERROR)
    return Location(
        cell=red.cell,
        status=red.status,
        message=red.message,
        origin="unknown",
        node=None,
        region=0,
        nodes=52,
        smallest_shape="b2-t1",
        explains=(red.cell.id,),
    )


def assemble(found: Sequence[Verdict], **details: Any) -> Report:  # Any: fields of Report
    """A report around verdicts, concluded as the gate concludes."""
    end = conclude(found)
    report = Report(
        tool_version="0.1.0",
        command="onnxparity verify --out onnxparity-report",
        created="2026-03-14T09:26:53+00:00",
        seconds=312.5,
        environment={
            "platform": "Linux-6.8-x86_64",
            "cpu": {"model": "Example CPU @ 2.5 GHz", "cores": 2, "flags": ["avx2", "avx512f"]},
            "packages": {"torch": "2.13.0", "onnx": "1.23.2", "onnxruntime-gpu": "1.31.1"},
            "tf32": None,
        },
        subjects=(),
        artifacts=(),
        runtimes=(),
        placements={},
        verdicts=tuple(found),
        summary=summarise(found),
        latency=(),
        conforms=end.conforms,
        exit_code=end.exit_code,
        conclusion=end.sentence,
    )
    return dataclasses.replace(report, **details)


def context() -> dict[str, Any]:  # Any: fields of Report
    """What surrounds the verdicts: subjects, files, runtimes, placements, latency, limits."""
    keys = (CAUSAL_20, CAUSAL_23, CAUSAL_16, ENCODER_18, ENCODER_23, ENCODER_16, DECODER, DECODER_16, GIVEN)
    warned = ("torch.onnx: the symbolic dim 'batch' was inferred to be 1", "a deprecated | option was used")
    cpu, cuda = "CPUExecutionProvider", "CUDAExecutionProvider"
    return {
        "subjects": subjects(),
        "artifacts": tuple(artifact(k, warnings=warned if k is GIVEN else ()) for k in keys),
        "runtimes": (
            Availability("torch-eager", True, "", "2.13.0"),
            Availability("onnx-reference", True, "", "1.23.2"),
            Availability("ort-cpu", True, "", "1.31.1"),
            Availability("ort-cuda", False, CUDA_REASON, "1.31.1", "pip install onnxruntime-gpu[cuda,cudnn]"),
        ),
        "placements": {
            f"{CAUSAL_23.id}/ort-cpu": (Placement("node_MatMul_1", "MatMul", cpu), Placement("sm", "Softmax", cpu)),
            f"{DECODER_16.id}/ort-cuda": (
                Placement("node_MatMul_1", "MatMul", cuda),
                Placement("node_Shape_2", "Shape", cpu),
                Placement("node_Gather_3", "Gather", cpu),
            ),
        },
        "latency": latencies(),
        "locations": (another_meaning(), location(), no_node()),
        "limits": (
            CUDA_LIMIT,
            "float16 on ort-cpu runs between inserted casts, so it cannot vouch for float16 on CUDA.",
        ),
    }


def full() -> Report:
    """Every status, every kind of ratio, latency with withheld cells."""
    return assemble(verdicts(), **context())


def green() -> Report:
    """A report that conforms, with an expected failure in it."""
    known = [v for v in failing() if v.status is Status.XFAIL]
    return assemble([*passes(CAUSAL_23, "ort-cpu", "arithmetic", (0.12, 0.5, 0.33)), *known], **context())


def incomplete() -> Report:
    """Nothing failed, and something that was asked for was never shown."""
    absent = [v for v in failing() if v.status is Status.UNAVAILABLE]
    return assemble([*passes(CAUSAL_23, "ort-cpu", "arithmetic", (0.12, 0.5)), *absent], **context())


def empty() -> Report:
    """Nothing was planned, so nothing was shown."""
    return assemble(())


def large(artifacts: int, cells: int, *, failing_every: int = 97) -> Report:
    """`artifacts` × `cells` verdicts, one of `failing_every` red."""
    found: list[Verdict] = []
    for a in range(artifacts):
        key = ArtifactKey(f"subject-{a % 25:02d}", "dynamo", 17 + a // 25 % 7, ("float32", "float16")[a // 175 % 2])
        for c in range(cells):
            n = a * cells + c
            ratio = 10.0 ** ((n * 7919 % 4000) / 1000 - 4)
            where = f"{('onnx-reference', 'ort-cpu')[c % 2]}/b{c % 4 + 1}-t{c}/regime-{c % 9}"
            question: Question = "meaning" if c % 2 == 0 else "arithmetic"
            if n % failing_every == 0:
                kind = Status.MEANING if c % 2 == 0 else Status.ARITHMETIC
                found.append(verdict(key, where, kind, question, 3 + n, "over its budget by far"))
            else:
                found.append(verdict(key, where, Status.PASS, question, ratio))
    keys = list(dict.fromkeys(v.cell.artifact for v in found))
    return assemble(tuple(found), artifacts=tuple(artifact(k) for k in keys))
