"""Each setting reaches what it sets, and a wrong one is refused before anything runs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

import onnxparity
from onnxparity import api, plugins
from onnxparity.errors import InternalError, UsageError, WorkerCrashedError, WorkerTimeoutError
from onnxparity.grammar import parser
from onnxparity.outcome import Status
from onnxparity.planning.planner import QUICK_OPSETS, Options, Target
from onnxparity.planning.selection import Described, Selected
from onnxparity.protocols import Availability
from onnxparity.running import probing
from onnxparity.running.pipeline import Listener, Settings
from tests.unit.hub.scripted import FILE, artifact
from tests.unit.hub.subjects import subject

ABSENT = Availability("ort-cuda", False, "no library\nmore", None, "install it")


CAUSAL = subject(properties=("causality",))
UNFED = {"inputs": [], "allow_nonfinite": False, "roles": None, "properties": ()}


@dataclass
class Seen:
    """What reached the run."""

    options: list[Options] = field(default_factory=list)
    settings: list[Settings] = field(default_factory=list)
    chosen: list[tuple[object, ...]] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    selected: tuple[Selected, ...] = (Selected(Target(CAUSAL), Described("subject", CAUSAL)),)
    absent: tuple[Availability, ...] = (ABSENT,)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Nothing is probed, described or run."""
    told = Seen()

    def select(texts: Sequence[str], directory: Path, **how: object) -> tuple[tuple[Selected, ...], tuple[str, ...]]:
        told.chosen.append((tuple(texts), directory, how))
        return told.selected, told.notes

    def probe_all(names: Sequence[str], worker: object) -> tuple[Availability, ...]:
        absent = {a.runtime: a for a in told.absent}
        return tuple(absent.get(n) or Availability(n, True, "", "1") for n in names)

    def run(selected: object, options: Options, settings: Settings, listener: Listener) -> None:
        assert isinstance(listener, Listener)
        told.options.append(options)
        told.settings.append(settings)

    monkeypatch.setattr(api, "select", select)
    monkeypatch.setattr(api, "probe_all", probe_all)
    monkeypatch.setattr(api, "run", run)
    return told


def verify(seen: Seen, *targets: str, **settings: object) -> tuple[Options, Settings]:
    """What one call planned."""
    api.verify(*targets, **settings)
    return seen.options[-1], seen.settings[-1]


def test_the_defaults_are_the_whole_matrix(seen: Seen) -> None:
    options, settings = verify(seen)
    assert options.opsets == (18, 20, 23, 24, 25)
    assert options.dtypes == ("float32", "float16")
    assert set(options.runtimes) == set(plugins.DEFAULT_RUNTIMES) - {"ort-cuda"}
    assert not options.quick and not settings.resume and settings.use_cache
    assert settings.catalogue_expectations and not settings.expectations
    assert seen.chosen == [((), Path.cwd(), {**UNFED, "against": None, "renamed": None})]


def test_quick_is_two_opsets_one_dtype_and_no_levels(seen: Seen) -> None:
    options, _ = verify(seen, quick=True)
    assert (options.opsets, options.dtypes, options.quick) == (QUICK_OPSETS, ("float32",), True)
    assert not set(options.runtimes) & set(plugins.LEVELS)
    options, _ = verify(seen, quick=True, opsets=(24,), dtypes=("float16",))
    assert (options.opsets, options.dtypes) == ((24,), ("float16",))


def test_what_is_asked_for_is_planned_with_what_the_meaning_needs(seen: Seen) -> None:
    options, _ = verify(seen, runtimes=("ort-cpu", "ort-cpu"))
    assert options.runtimes == ("torch-float64", "onnx-float64", "ort-cpu")


def test_a_missing_runtime_is_a_limit_by_default_and_planned_where_it_is_asked_for(seen: Seen) -> None:
    options, settings = verify(seen)
    assert "ort-cuda" not in options.runtimes
    assert settings.limits == ("ort-cuda was not available, so nothing here says anything about it: no library",)
    options, settings = verify(seen, runtimes=("ort-cuda",))
    assert "ort-cuda" in options.runtimes
    assert ABSENT in settings.runtimes


def test_a_missing_runtime_that_is_not_optional_is_planned_and_so_seen(seen: Seen) -> None:
    seen.absent = (Availability("ort-cpu", False, "", None),)
    options, settings = verify(seen)
    assert "ort-cpu" in options.runtimes
    assert "ort-cpu was not available" in settings.limits[0] and settings.limits[0].endswith(": it gave no reason")


def test_every_other_setting_reaches_the_run(seen: Seen, tmp_path: Path) -> None:
    (tmp_path / "known.toml").write_text('[[expect]]\ncells="*"\nstatus="MEANING"\nreason="r"\nlink="l"\n')
    options, settings = verify(
        seen,
        "a",
        against="b",
        renamed={"x": "y"},
        shapes=("b2-t17",),
        regimes=("normal", "causality"),
        inputs=("real inputs.npz", tmp_path),
        allow_nonfinite=True,
        roles={"x": "tokens"},
        properties=("causality",),
        cells=("*/normal",),
        expect=(tmp_path / "known.toml",),
        out=tmp_path,
        resume=True,
        use_cache=False,
        jobs=7,
        limit=3.0,
        command="typed",
    )
    fed = {"inputs": ["real inputs.npz", str(tmp_path)], "allow_nonfinite": True}
    fed |= {"roles": {"x": "tokens"}, "properties": ("causality",)}
    assert seen.chosen == [(("a",), Path.cwd(), {**fed, "against": "b", "renamed": {"x": "y"}})]
    assert (options.shapes, options.cells) == (("b2-t17",), ("*/normal",))
    assert options.regimes == ("normal", "causality")
    assert settings.inputs == f"--inputs 'real inputs.npz' --inputs {tmp_path} --allow-nonfinite"
    assert [e.status for e in settings.expectations] == [Status.MEANING]
    assert (settings.out, settings.resume, settings.use_cache) == (tmp_path, True, False)
    assert (settings.slots, settings.limit, settings.command) == (7, 3.0, "typed")


def test_without_inputs_nothing_is_to_be_typed_again(seen: Seen) -> None:
    assert verify(seen, allow_nonfinite=True)[1].inputs == ""


def test_a_regime_that_no_subject_has_is_an_error_with_near_matches(seen: Seen) -> None:
    with pytest.raises(UsageError, match="'satured'") as raised:
        verify(seen, regimes=("satured",))
    assert raised.value.expected == "saturated" and raised.value.remedy
    assert verify(seen, regimes=("causality", "beyond-length"))[0].regimes == ("causality", "beyond-length")


def test_a_dtype_in_which_the_module_does_not_run_is_left_out_and_refused_where_it_is_asked_for(seen: Seen) -> None:
    narrow = replace(subject(name="narrow"), dtypes=("float32",))
    told = Described("m:narrow", narrow, refused={"float16": "mat1 and mat2 differ", "bfloat16": "as well"})
    seen.selected = (Selected(Target(narrow), told),)
    limits = verify(seen)[1].limits
    assert any("m:narrow is not judged in float16" in line and "mat1 and mat2 differ" in line for line in limits)
    assert not any("bfloat16" in line for line in limits), "nobody would have tried it"
    with pytest.raises(UsageError, match="does not run in float16") as raised:
        verify(seen, dtypes=("float32", "float16"))
    assert raised.value.got == "mat1 and mat2 differ" and raised.value.expected and raised.value.remedy


def test_notes_of_the_selection_are_limits(seen: Seen) -> None:
    seen.notes = ("guessed",)
    assert verify(seen)[1].limits[0] == "guessed"


def test_a_subject_without_any_cell_is_told(seen: Seen) -> None:
    half = replace(subject(name="half"), dtypes=("float16",))
    seen.selected += (Selected(Target(half), Described("half", half)),)
    assert verify(seen, dtypes=("float32",))[1].limits[-1] == "half has no cell in this run: it comes in float16"
    assert len(verify(seen, dtypes=("float32",), cells=("subject/*",))[1].limits) == 1, "some cells were asked for"


def test_few_subjects_are_timed_unless_it_is_said_otherwise(seen: Seen) -> None:
    assert verify(seen)[1].timed == ("*",)
    assert verify(seen, latency=("none",))[1].timed == ()
    assert verify(seen, latency=("sub*",))[1].timed == ("sub*",)
    many = [subject(name=f"s{n}") for n in range(api.TIMED_BY_DEFAULT + 1)]
    seen.selected = tuple(Selected(Target(s), Described(s.name, s)) for s in many)
    assert verify(seen)[1].timed == ()
    assert verify(seen, latency=("*",))[1].timed == ("*",)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"latency": ("none", "*")}, "contradict"),
        ({"latency": ("nothing",)}, "fits no selected subject"),
        ({"jobs": 0}, "--jobs"),
        ({"jobs": -1}, "--jobs"),
        ({"limit": 0.0}, "--limit"),
        ({"limit": -1.0}, "--limit"),
        ({"limit": float("nan")}, "--limit"),
        ({"limit": float("inf")}, "--limit"),
        ({"runtimes": ("ort-cpx",)}, "unknown runtime"),
        ({"expect": (Path("nothing.toml"),)}, "cannot read expectations"),
    ],
)
def test_a_wrong_setting_is_refused(seen: Seen, settings: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        verify(seen, **settings)
    assert seen.options == []


def test_a_setting_that_does_not_exist_is_refused(seen: Seen) -> None:
    with pytest.raises(TypeError, match="tolerance"):
        verify(seen, tolerance=1e-3)


@pytest.mark.parametrize("settings", [{"opsets": (23,)}, {"dtypes": ("float16",)}])
def test_a_file_is_not_taken_for_another_opset_or_dtype(seen: Seen, settings: dict[str, object]) -> None:
    described = Described("a.onnx", subject(), artifact=artifact(FILE))
    seen.selected = (Selected(Target(subject(), given=FILE), described),)
    with pytest.raises(UsageError, match="is a file"):
        verify(seen, **settings)
    verify(seen, opsets=(18, 23), dtypes=("float32",))


def test_every_parameter_is_a_flag_and_every_flag_a_parameter() -> None:
    flags = set(vars(parser().parse_args(["verify"]))) - {"verb", "targets"}
    renamed = {"map": "renamed", "opset": "opsets", "dtype": "dtypes", "runtime": "runtimes", "shape": "shapes"}
    renamed |= {"cell": "cells", "regime": "regimes", "no_cache": "use_cache"}
    renamed |= {"role": "roles", "property": "properties"}
    only_here = {"command", "listener"}
    only_there = {"json"}
    parameters = set(inspect.signature(api.verify_with).parameters) - {"targets"}
    assert {renamed.get(f, f) for f in flags - only_there} == parameters - only_here


def test_the_package_offers_verify() -> None:
    assert onnxparity.verify is api.verify


class Probed:
    """A worker whose probes answer, or end it."""

    answers: dict[str, Exception]

    def __enter__(self) -> Probed:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def call(self, job: str, names: tuple[str, ...], *, limit: float) -> Iterator[Availability]:
        assert job == "probe"
        for name in names:
            if name in self.answers:
                raise self.answers[name]
            yield Availability(name, True, "", "1")


def test_a_runtime_that_ends_its_worker_is_not_available_and_the_rest_are(monkeypatch: pytest.MonkeyPatch) -> None:
    Probed.answers = {
        "ort-cuda": WorkerCrashedError("the worker died in probe: signal 11", got="last words"),
        "openvino": WorkerTimeoutError("no answer"),
        "ort-cpu-basic": InternalError("ValueError in probe"),
    }
    monkeypatch.setattr(probing, "Worker", Probed)
    names = ("torch-eager", "ort-cpu", "ort-cuda", "openvino", "ort-cpu-basic", "ort-cpu-disabled")
    found = probing.probe_all(names)
    assert [a.runtime for a in found] == list(names)
    assert [a.available for a in found] == [True, True, False, False, False, True]
    assert found[2].reason == "the worker died in probe: signal 11: last words"
    assert found[3].reason == "no answer"


def test_whether_two_files_are_one_is_no_question_of_their_speed(seen: Seen) -> None:
    _, alone = verify(seen, "a")
    _, held = verify(seen, "a", against="b")
    _, asked = verify(seen, "a", against="b", latency=("*",))
    assert (alone.timed, held.timed, asked.timed) == (("*",), (), ("*",))
