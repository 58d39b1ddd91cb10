"""The public surface, written down: a change of a name or a parameter is a decision."""

import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import knnlm

NAMES = [
    "Change",
    "Component",
    "DamagedError",
    "Datastore",
    "DatastoreInfo",
    "Distilled",
    "Document",
    "Entries",
    "EvaluationResult",
    "ExplainedToken",
    "Explanation",
    "Folder",
    "Generation",
    "HubDataset",
    "Index",
    "KNNLM",
    "KNNLMForCausalLM",
    "KnnlmError",
    "LanguageModel",
    "Neighbors",
    "Preset",
    "PythonDocs",
    "Retrieval",
    "RetrievedNeighbor",
    "Sampling",
    "Source",
    "TrainingResult",
    "TunedSettings",
    "UsageError",
    "VerifyResult",
    "__version__",
    "load_model",
    "run_demo",
    "train",
]
PARAMETERS = {
    "Datastore": "entries model device",
    "Datastore.add": "text",
    "Datastore.build": "model text path * keys att_module window stride logprobs dtype device "
    "precision adapter",
    "Datastore.build_index": "* key metric factory nprobe refine recall",
    "Datastore.combine": "components text * name",
    "Datastore.compact": "",
    "Datastore.distill": "text * name kind key size metric soft_targets lr epochs seed",
    "Datastore.forget": "documents",
    "Datastore.hidden_states": "text * key",
    "Datastore.info": "",
    "Datastore.open": "path * model device",
    "Datastore.queries": "text split * allow_overlap",
    "Datastore.search": "queries k * key metric exact index",
    "Datastore.verify": "",
    "KNNLM": "store * component key metric index exact score k lam tau model device",
    "KNNLM.evaluate": "text * split allow_overlap",
    "KNNLM.explain": "text",
    "KNNLM.generate": "prompt * chat max_new_tokens sampling compare stream reuse",
    "KNNLM.to_transformers": "",
    "KNNLM.tune": "text * k taus allow_overlap",
    "train": "text path * valid preset seed",
}
PROPERTIES = {
    "Datastore": ["components", "indexes", "keys", "model", "path"],
    "KNNLM": ["component", "settings", "tokenizer"],
}
TOO_SHORT = 3  # words: a docstring that says nothing


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """What a class offers by itself, not by inheritance from another library."""
    for base in kind.__mro__:
        if base.__module__.startswith("knnlm"):
            yield from ((name, m) for name, m in vars(base).items() if not name.startswith("_"))


def function_of(member: Any) -> Callable[..., Any] | None:
    """The function behind a method or property; None for a field."""
    for attribute in ("__func__", "fget", "func"):
        member = getattr(member, attribute, member)
    return member if inspect.isfunction(member) else None


def parameters(function: Callable[..., Any]) -> str:
    """Names of parameters; those after a star are given by name."""
    names: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in names:
            names.append("*")
        names.append(name)
    return " ".join(names)


def test_the_names_are_these() -> None:
    assert dir(knnlm) == NAMES
    assert sorted(knnlm.__all__) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there_and_says_what_it_is(name: str) -> None:
    value = getattr(knnlm, name)
    assert inspect.getdoc(value)
    if inspect.isclass(value):
        assert "__doc__" in vars(value)
        for member_name, member in members(value):
            function = function_of(member)
            if function is not None:
                words = (function.__doc__ or "").split()
                assert len(words) > TOO_SHORT, f"{name}.{member_name}: {' '.join(words)!r}"
                assert words[0] != "Of", f"{name}.{member_name}"


def test_an_unknown_name_is_an_attribute_error() -> None:
    earlier = "build"
    with pytest.raises(AttributeError, match="knnlm attribute build"):
        getattr(knnlm, earlier)


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_these(name: str) -> None:
    owner, _, method = name.partition(".")
    value = getattr(knnlm, owner)
    assert parameters(getattr(value, method) if method else value) in (
        PARAMETERS[name],
        f"self {PARAMETERS[name]}".strip(),
    )


@pytest.mark.parametrize("name", PROPERTIES)
def test_methods_and_properties_are_these(name: str) -> None:
    every = dict(members(getattr(knnlm, name)))
    methods = [m.partition(".")[2] for m in PARAMETERS if m.startswith(f"{name}.")]
    assert sorted(every) == sorted([*methods, *PROPERTIES[name]])


def test_importing_knnlm_costs_nothing() -> None:
    code = (
        "import sys, knnlm; dir(knnlm); "
        "print([m for m in ('torch', 'faiss', 'transformers', 'numpy') if m in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
