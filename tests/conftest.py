"""Fixtures that several rooms share, and settings that make every test repeatable."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from knnlm import KNNLM, Datastore
from knnlm.models.load import LanguageModel, load_model
from knnlm.models.presets import SMOKE, new_model
from knnlm.text.local_files import Files
from knnlm.text.tokenizer import train_tokenizer

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=False,
)
settings.load_profile("repeatable")


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing that a test keeps for later is kept in the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KNNLM_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "and",
    "looked",
    "at",
    "grey",
    "dogs",
    "while",
    "it",
    "rained",
    "outside",
]


def prose(seed: int, sentences: int) -> str:
    """Text with some structure: enough for a tokenizer and a model to have something to learn."""
    generator = torch.Generator().manual_seed(seed)
    lines = []
    for _ in range(sentences):
        picks = torch.randint(len(WORDS), (8,), generator=generator).tolist()
        lines.append(" ".join(WORDS[i] for i in picks) + ".\n")
    return "".join(lines)


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Small train, valid and test files of prose."""
    folder = tmp_path_factory.mktemp("texts")
    files = {}
    for seed, (name, sentences) in enumerate({"train": 400, "valid": 60, "test": 60}.items()):
        files[name] = folder / f"{name}.txt"
        files[name].write_text(prose(seed, sentences))
    return files


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory, texts: dict[str, Path]) -> Path:
    """A model folder: random weights, the architecture of the presets, a tokenizer of the prose."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = train_tokenizer((d.text for d in Files((texts["train"],))), 300)
    preset = dataclasses.replace(SMOKE, width=16, layers=2, heads=2, context=24)
    torch.manual_seed(0)
    new_model(preset, len(tokenizer), tokenizer.bos_token_id).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def lm(tiny_model: Path) -> LanguageModel:
    """The tiny model, open; nobody may change it."""
    return load_model(tiny_model)


@pytest.fixture(scope="session")
def tuned_store(
    tmp_path_factory: pytest.TempPathFactory, tiny_model: Path, texts: dict[str, Path]
) -> Path:
    """A datastore of the tiny model, tuned with exact search; nobody may change it."""
    path = tmp_path_factory.mktemp("tuned") / "store"
    KNNLM(Datastore.build(tiny_model, texts["train"], path)).tune(texts["valid"], k=32)
    return path


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Sums in one order, so that weights can be compared bit for bit."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
