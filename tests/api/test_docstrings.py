"""Docstrings of the public surface: every parameter, every result, and examples that parse."""

import doctest
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import pytest

import knnlm
from tests.api.test_surface import function_of, members

WITH_EXAMPLE = [
    "Component",
    "Distilled",
    "HubDataset",
    "KNNLMForCausalLM",
    "LanguageModel",
    "Neighbors",
    "Preset",
    "PythonDocs",
    "Retrieval",
    "Sampling",
    "TunedSettings",
    "load_model",
    "run_demo",
    "train",
]
WITH_EXAMPLES_OF_METHODS = ["Datastore", "KNNLM"]
SECTION = re.compile(r"^([A-Z]\w+):$", re.MULTILINE)


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Public functions, and the methods of public classes and of their bases in knnlm."""
    for name in sorted(knnlm.__all__):
        value = getattr(knnlm, name)
        if inspect.isfunction(value):
            yield name, inspect.unwrap(value)
        elif inspect.isclass(value):
            for member_name, member in members(value):
                function = function_of(member)
                if function is not None and not isinstance(member, property | cached_property):
                    yield f"{name}.{member_name}", inspect.unwrap(function)


FUNCTIONS = list(functions())
OBJECTS = {name: getattr(knnlm, name) for name in knnlm.__all__} | dict(FUNCTIONS)
each_function = pytest.mark.parametrize(
    ("name", "function"), FUNCTIONS, ids=[name for name, _ in FUNCTIONS]
)


def sections(documented: Any) -> dict[str, str]:
    """The sections of a docstring by their headings; what comes before them is ''."""
    parts = SECTION.split(inspect.getdoc(documented) or "")
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def parameters(function: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(function).parameters) - {"self", "cls"}


def documented_parameters(function: Callable[..., Any]) -> set[str]:
    args = sections(function).get("Args", "")
    return set(re.findall(r"^    \*{0,2}(\w+): \S", args, re.MULTILINE))


@each_function
def test_args_names_every_parameter_and_no_other(name: str, function: Callable[..., Any]) -> None:
    assert documented_parameters(function) == parameters(function)


@each_function
def test_returns_says_what_a_function_with_parameters_gives(
    name: str, function: Callable[..., Any]
) -> None:
    returns = inspect.signature(function).return_annotation
    assert returns is not inspect.Signature.empty
    if returns is None:
        assert "Returns" not in sections(function)
    elif parameters(function):
        assert sections(function).get("Returns", "").strip()


@each_function
def test_raises_names_errors_that_a_user_can_catch(name: str, function: Callable[..., Any]) -> None:
    raises = sections(function).get("Raises")
    if raises is not None:
        errors = re.findall(r"^    (\w+): \S", raises, re.MULTILINE)
        assert errors
        for error in errors:
            assert issubclass(getattr(knnlm, error), knnlm.KnnlmError)


def test_the_names_with_an_example_are_public() -> None:
    assert {*WITH_EXAMPLE, *WITH_EXAMPLES_OF_METHODS} <= set(knnlm.__all__)


@pytest.mark.parametrize(
    "name",
    [
        *WITH_EXAMPLE,
        *WITH_EXAMPLES_OF_METHODS,
        *(name for name, _ in FUNCTIONS if name.partition(".")[0] in WITH_EXAMPLES_OF_METHODS),
    ],
)
def test_an_example_shows_how_it_is_called(name: str) -> None:
    assert ">>> " in sections(OBJECTS[name]).get("Example", "")


@pytest.mark.parametrize("name", OBJECTS)
def test_examples_are_python(name: str) -> None:
    for example in doctest.DocTestParser().get_examples(inspect.getdoc(OBJECTS[name]) or ""):
        compile(example.source, name, "single")
