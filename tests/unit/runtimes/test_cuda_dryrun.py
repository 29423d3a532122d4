"""The CUDA dry run: built once, in a child process only, and a clear reason wherever it cannot be asked."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from onnxparity.cache import CacheDir
from onnxparity.errors import LoadError, UnavailableError, UsageError
from onnxparity.runtimes import cuda_dryrun, cuda_shim
from onnxparity.runtimes.cuda_answer import CUDA
from onnxparity.runtimes.cuda_dryrun import DryRun, ask
from onnxparity.runtimes.cuda_shim import shim
from onnxparity.runtimes.ort import CPU
from tests.unit.runtimes.cuda_here import needs_dry_run
from tests.unit.runtimes.files import block, model, value


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> CacheDir:
    """A cache that holds the shim after its first use."""
    return CacheDir(tmp_path_factory.mktemp("cache"))


def saved(path: Path, made: onnx.ModelProto) -> Path:
    path.write_bytes(made.SerializeToString())
    return path


def asked(folder: Path, made: onnx.ModelProto, cache: CacheDir) -> DryRun:
    (folder / "run").mkdir()
    return ask(saved(folder / "model.onnx", made), folder / "run", cache=cache)


def placements(run: DryRun) -> dict[str, str]:
    return {p.node: p.provider for p in run.after}


def without_kernel(*, names: bool = True) -> onnx.ModelProto:
    """det(x x) with a result on the device again. x: (b, 4, 4)."""
    name = ("square", "det", "relu") if names else ("same", "same", "")
    nodes = [
        helper.make_node("MatMul", ["x", "x"], ["xx"], name=name[0]),
        helper.make_node("Det", ["xx"], ["d"], name=name[1]),
        helper.make_node("Relu", ["d"], ["y"], name=name[2]),
    ]
    return model(nodes, [value("x", ["b", 4, 4])], [value("y", ["b"])])


@needs_dry_run
def test_every_node_is_placed_before_and_after_optimisation(tmp_path: Path, cache: CacheDir) -> None:
    run = asked(tmp_path, block(), cache)
    assert run.before is not None and run.before != run.after
    assert {p.node for p in run.before} == {node.name for node in block().graph.node}
    assert {p.provider for p in run.before} == {p.provider for p in run.after} == {CUDA}
    assert "Erf" in {p.operator for p in run.before} and "Gelu" in {p.operator for p in run.after}


@needs_dry_run
def test_a_node_without_a_kernel_is_on_the_host_and_the_reason_is_told(tmp_path: Path, cache: CacheDir) -> None:
    run = asked(tmp_path, without_kernel(), cache)
    placed = placements(run)
    assert (placed["square"], placed["det"], placed["relu"]) == (CUDA, CPU, CUDA)
    assert run.reasons == {"det": cuda_dryrun.NO_KERNEL}
    assert sorted(p.operator for p in run.after if p.operator.startswith("Memcpy")) == [
        "MemcpyFromHost",
        "MemcpyToHost",
    ]


@needs_dry_run
def test_nodes_without_names_or_with_one_name_are_told_apart(tmp_path: Path, cache: CacheDir) -> None:
    run = asked(tmp_path, without_kernel(names=False), cache)
    where = {p.operator: p.provider for p in run.after}
    assert (where["MatMul"], where["Det"], where["Relu"]) == (CUDA, CPU, CUDA)


@needs_dry_run
def test_weights_beside_a_file_are_found_though_its_nodes_are_named_anew(tmp_path: Path, cache: CacheDir) -> None:
    weight = np.ones((4, 2048), np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    made = model(nodes, [value("x", ["b", 4])], [value("y", ["b", 2048])], initializers={"w": weight})
    onnx.save(made, tmp_path / "big.onnx", save_as_external_data=True, location="big.data", size_threshold=0)
    (tmp_path / "run").mkdir()
    run = ask(tmp_path / "big.onnx", tmp_path / "run", cache=cache)
    assert [(p.operator, p.provider) for p in run.after] == [("MatMul", CUDA)]


@needs_dry_run
def test_the_shim_is_built_once_and_never_loaded_here(
    tmp_path: Path, cache: CacheDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = shim(tmp_path, cache)
    monkeypatch.setattr(cuda_shim, "_build", lambda *_, **__: pytest.fail("built again"))
    assert shim(tmp_path, cache) == first and cache.root in first.parents
    asked(tmp_path, block(), cache)
    assert "cuda-shim" not in Path("/proc/self/maps").read_text()


@needs_dry_run
def test_another_build_of_onnx_runtime_gets_a_shim_of_its_own(
    tmp_path: Path, cache: CacheDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = shim(tmp_path, cache)
    monkeypatch.setattr(onnxruntime, "get_build_info", lambda: "another build")
    assert shim(tmp_path, cache) != first


@needs_dry_run
def test_a_cache_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert shim(tmp_path, CacheDir(tmp_path / "file" / "cache")).parent == tmp_path


@needs_dry_run
@pytest.mark.parametrize(("capability", "want"), [("90", "9 0"), ("86", "8 6"), ("120", "12 0")])
def test_the_device_has_the_compute_capability_that_is_asked_about(
    tmp_path: Path, cache: CacheDir, capability: str, want: str
) -> None:
    code = (
        "import ctypes, sys; c = ctypes.CDLL(sys.argv[1]); v = [ctypes.c_int(), ctypes.c_int()]\n"
        "[c.cudaDeviceGetAttribute(ctypes.byref(each), n, 0) for n, each in zip((75, 76), v)]\n"
        "p = ctypes.create_string_buffer(1008); c.cudaGetDeviceProperties(p, 0)\n"
        "assert [int.from_bytes(p.raw[at:at + 4], 'little') for at in (360, 364)] == [each.value for each in v]\n"
        "print(v[0].value, v[1].value)"
    )
    command = [sys.executable, "-c", code, str(shim(tmp_path, cache))]
    environment = {"ONNXPARITY_COMPUTE_CAPABILITY": capability}
    assert subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip() == want


@needs_dry_run
def test_a_file_that_onnx_runtime_refuses_is_a_load_error(tmp_path: Path, cache: CacheDir) -> None:
    refused = block()
    refused.opset_import[0].version = 200
    with pytest.raises(LoadError) as caught:
        asked(tmp_path, refused, cache)
    assert "opset" in str(caught.value.got)


@needs_dry_run
def test_what_is_no_onnx_file_is_a_usage_error(tmp_path: Path, cache: CacheDir) -> None:
    (tmp_path / "junk.onnx").write_text("junk")
    with pytest.raises(UsageError, match="cannot be read as an ONNX file"):
        ask(tmp_path / "junk.onnx", tmp_path, cache=cache)


@pytest.mark.parametrize("capability", ["90", "9", "9.0.1", "nine", "-1.0", ""])
def test_a_wrong_compute_capability_is_a_usage_error(tmp_path: Path, capability: str) -> None:
    with pytest.raises(UsageError, match="compute capability"):
        ask(saved(tmp_path / "m.onnx", block()), tmp_path, capability=capability, cache=CacheDir(tmp_path))


@needs_dry_run
def test_a_provider_that_does_not_register_is_unavailable(
    tmp_path: Path, cache: CacheDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = cuda_shim._tool("cc", "gcc", "clang")
    empty = cuda_shim._build(tmp_path, "int nothing;", compiler=compiler, wanted=frozenset())
    monkeypatch.setattr(cuda_dryrun, "shim", lambda *_: empty)
    with pytest.raises(UnavailableError, match="the CUDA provider did not register"):
        asked(tmp_path, block(), cache)


@needs_dry_run
def test_a_child_that_dies_is_unavailable(tmp_path: Path, cache: CacheDir, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = cuda_shim._tool("cc", "gcc", "clang")
    source = "#include <stdlib.h>\n__attribute__((constructor)) static void die(void) { abort(); }"
    deadly = cuda_shim._build(tmp_path, source, compiler=compiler, wanted=frozenset())
    monkeypatch.setattr(cuda_dryrun, "shim", lambda *_: deadly)
    with pytest.raises(UnavailableError, match="died with signal 6"):
        asked(tmp_path, block(), cache)


@needs_dry_run
def test_a_child_that_gives_no_answer_is_unavailable(
    tmp_path: Path, cache: CacheDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_dryrun, "LIMIT", 0.01)
    with pytest.raises(UnavailableError, match="no answer within"):
        asked(tmp_path, block(), cache)


@needs_dry_run
def test_without_a_compiler_the_remedy_is_told(
    tmp_path: Path, cache: CacheDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(UnavailableError, match="there is no C compiler") as caught:
        shim(tmp_path, cache)
    assert "apt-get install gcc" in str(caught.value.remedy)


@needs_dry_run
def test_a_compiler_that_fails_says_why_itself(tmp_path: Path) -> None:
    compiler = cuda_shim._tool("cc", "gcc", "clang")
    with pytest.raises(UnavailableError, match="error"):
        cuda_shim._build(tmp_path, "this is no C", compiler=compiler, wanted=frozenset())


def test_other_platforms_and_packages_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = CacheDir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "darwin")
        with pytest.raises(UnavailableError, match="needs Linux on x86_64"):
            shim(tmp_path, cache)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(onnxruntime, "__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(UnavailableError, match="has no CUDA provider"):
        shim(tmp_path, cache)
    (tmp_path / "capi").mkdir()
    (tmp_path / "capi" / "libonnxruntime_providers_cuda.so").touch()
    monkeypatch.setattr(onnxruntime, "cuda_version", "12.8", raising=False)
    with pytest.raises(UnavailableError, match=r"built for CUDA 12\.8"):
        shim(tmp_path, cache)


LOG = """[V:onnxruntime:, session_state.cc:1578 VerifyEachNodeIsAssignedToAnEp] Node placements
[V:onnxruntime:, session_state.cc:1584 VerifyEachNodeIsAssignedToAnEp]  Node(s) placed on [{0}]. Number of nodes: 2
[V:onnxruntime:, session_state.cc:1586 VerifyEachNodeIsAssignedToAnEp]   MatMul (square)
[V:onnxruntime:, session_state.cc:1586 VerifyEachNodeIsAssignedToAnEp]   Relu (relu)
[V:onnxruntime:, session_state.cc:1584 VerifyEachNodeIsAssignedToAnEp]  Node(s) placed on [{1}]. Number of nodes: 1
[V:onnxruntime:, session_state.cc:1586 VerifyEachNodeIsAssignedToAnEp]   Det (det)
"""


def test_the_log_is_read_and_one_that_tells_of_other_nodes_is_refused(tmp_path: Path) -> None:
    path, log = saved(tmp_path / "optimized.onnx", without_kernel()), LOG.format(CUDA, CPU)
    assert [p.provider for p in cuda_dryrun._placed(path, log)] == [CUDA, CPU, CUDA]
    for broken in (log.replace("Det (det)", "Det (other)"), "\n".join(log.splitlines()[:-1]), ""):
        with pytest.raises(UnavailableError, match="its log tells of"):
            cuda_dryrun._placed(path, broken)


@pytest.mark.parametrize("providers", [(CUDA, CPU), (CPU, CUDA)])
def test_of_two_nodes_with_one_name_none_is_taken_to_be_on_the_device(
    tmp_path: Path, providers: tuple[str, str]
) -> None:
    nodes = [helper.make_node("Relu", [a], [b], name="one") for a, b in ("xh", "hy")]
    path = saved(tmp_path / "optimized.onnx", model(nodes, [value("x", ["b"])], [value("y", ["b"])]))
    head = "VerifyEachNodeIsAssignedToAnEp]"
    log = "".join(f"{head}  Node(s) placed on [{p}]. Number of nodes: 1\n{head}   Relu (one)\n" for p in providers)
    assert [p.provider for p in cuda_dryrun._placed(path, log)] == [CPU, CPU]
