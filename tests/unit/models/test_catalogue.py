"""The catalogue by name, and what each description must say."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import onnxparity.models
from onnxparity.errors import SubjectError
from onnxparity.invariants import COMPANIONED, PROPERTIES, UNIVERSAL, claim
from onnxparity.models.catalogue import TOPICS, entries, find, merge


def test_duplicate_name_raises() -> None:
    entry = find("layer-norm")
    with pytest.raises(SubjectError, match="layer-norm"):
        merge([entry, find("rms-norm"), replace(entry)])


def test_every_topic_module_is_in_the_catalogue() -> None:
    folder = Path(onnxparity.models.__path__[0])
    topics = {path.stem for path in folder.glob("*.py") if re.search(r"^ENTRIES\b", path.read_text("utf-8"), re.M)}
    assert topics == set(TOPICS)
    assert len(TOPICS) == len(set(TOPICS))


def test_unknown_name_raises_with_near_matches() -> None:
    with pytest.raises(SubjectError, match="causal-attention") as caught:
        find("casual-attention")
    assert caught.value.what == "unknown subject 'casual-attention'"


def test_unknown_name_without_a_near_match_raises_with_every_name() -> None:
    with pytest.raises(SubjectError) as caught:
        find("zzz")
    assert all(name in str(caught.value) for name in entries())


@pytest.mark.parametrize("name", entries())
def test_entry_names_itself_and_its_source(name: str) -> None:
    subject = find(name).subject
    assert (subject.name, subject.kind, subject.origin) == (name, "catalogue", name)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
    assert subject.summary and subject.summary == subject.summary.strip()
    named = re.search(r"seed 00[0134]\b", subject.source) or re.search(r"\b(19|20)\d\d\b", subject.source)
    assert named or "library" in subject.source, subject.source
    assert subject.parameters is None


@pytest.mark.parametrize("name", entries())
def test_entry_promises_known_properties_that_fit_its_description(name: str) -> None:
    subject = find(name).subject
    assert set(subject.properties) <= set(PROPERTIES)
    assert {COMPANIONED[p] for p in subject.properties if p in COMPANIONED} == set(subject.companions)
    assert set(subject.companions.values()) <= set(entries())
    assert ("window" in subject.properties) == (subject.window is not None)
    assert subject.axis("batch") is None or "batch-invariance" in subject.properties
    assert ("simplex" in subject.properties) == any(o.role == "weights" for o in subject.outputs)
    if "padding-invariance" in subject.properties:
        assert subject.input("mask") is not None
    if "causality" in subject.properties:
        assert subject.axis("sequence") is not None


def test_every_property_is_promised_by_an_entry_or_by_every_file() -> None:
    promised = {name for entry in entries().values() for name in entry.subject.properties}
    assert promised | {*UNIVERSAL} == set(PROPERTIES)


@pytest.mark.parametrize("name", PROPERTIES)
def test_every_property_states_its_claim_and_its_source(name: str) -> None:
    text = PROPERTIES[name].__doc__ or ""
    assert "Source: " in text
    assert claim(name).endswith(".") and "Source" not in claim(name)


def test_catalogue_is_cheap_to_import() -> None:
    code = (
        "import sys, onnxparity.models.catalogue as c; c.entries(); "
        "print([m for m in ('onnx', 'onnxruntime', 'transformers', 'torchvision', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"
