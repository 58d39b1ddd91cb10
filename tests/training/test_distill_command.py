"""`knnlm distill`: a component kept with the datastore and used instead of a search."""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knnlm.api import KNNLM, Datastore
from knnlm.cli.main import run
from knnlm.components.records import list_components
from knnlm.datastore.entries import Entries, open_entries
from knnlm.errors import KnnlmError
from knnlm.models.load import LanguageModel
from knnlm.training.distillation import DistillRequest, load_distilled
from knnlm.training.kinds import ComponentSpec
from knnlm.training.learn import DEFAULT_FIT
from tests.conftest import prose
from tests.search.conftest import built as built
from tests.search.conftest import store as store
from tests.training.distilling import HEAD, HEAD_WORDS, error_of, json_of

pytestmark = pytest.mark.pipeline


def test_the_commands(
    store: Entries, texts: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    at, valid, test = str(store.path), str(texts["valid"]), str(texts["test"])
    assert run(["tune", at, "--text", valid, "--exact", "--k", "8"]) == 0
    made = json_of(capsys, "distill", at, *HEAD_WORDS)  # on the text it was tuned on
    assert made["name"] == made["component"] == "head"
    assert run(["distill", at, *HEAD_WORDS]) == 0
    told = capsys.readouterr()
    assert "is there already" in told.err
    assert re.search(
        r"→ [\d.]+ \(−[\d.]+\s%\) on [\d,]+ tokens, without a search \(with the search: [\d.]+\)",
        told.out,
    )
    result = json_of(capsys, "eval", at, "--text", test, "--component", "head")
    assert result["component"] == "head"
    assert result["lambda"] == made["lambda"]
    assert result["temperature"] == made["temperature"]
    assert result["k"] is None
    assert run(["eval", at, "--text", test, "--component", "head"]) == 0
    assert "base LM with head" in capsys.readouterr().out
    words = ["generate", at, "the", "--max-new-tokens", "4", "--component", "head", "--explain"]
    assert json_of(capsys, *words)["component"] == "head"
    assert run([*words, "--compare"]) == 0
    printed = capsys.readouterr().out
    assert "p_head" in printed
    assert "kNN" not in printed
    assert run(["info", at]) == 0
    assert "component head: head on att" in capsys.readouterr().out


def test_by_default_the_datastore_is_compressed_into_clusters(
    store: Entries, texts: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    at, valid = str(store.path), str(texts["valid"])
    made = json_of(capsys, "distill", at, "--text", valid)
    assert (made["name"], made["steps"], made["fit"]) == ("clusters", 0, None)
    assert made["spec"]["size"] == min(2 * store.vocab_size, store.count // 32, 8192)
    assert run(["distill", at, "--text", valid]) == 0
    assert "component clusters of" in capsys.readouterr().err  # is there already
    words = ("--epochs", "1", "--lr", "0.01")
    assert json_of(capsys, "distill", at, "--text", valid, *words)["steps"] != 0
    assert run(["distill", at, "--text", valid, "--key", "ffn"]) == 0
    assert list_components(store) == ["clusters", "clusters-ffn"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--size", "0"], "size 0 of clusters is out of range"),
        (["--kind", "head", "--size", "0"], "size 0 of head is out of range: choose 1 to 64"),
        (["--kind", "head", "--size", "65"], "choose 1 to 64"),
        (["--kind", "mixture-of-softmaxes", "--size", "17"], "choose 1 to 16"),
        (["--kind", "mpl"], "did you mean 'mlp'"),
        (["--name", "../up"], "is not a name for a component"),
        (["--name", "knn"], "is the name of the neighbors themselves: choose another name"),
        (["--kind", "head", "--soft-targets", "1.5"], "choose 0 to 1"),
        (["--epochs", "1", "--lr", "0"], "learning rate 0.0 is out of range"),
        (["--lr", "0.1"], "only if --epochs is given: give it too, or leave out --lr"),
        (["--name", ""], "is not a name for a component"),
        (["--epochs", "0"], "0 epochs are out of range"),
        (["--key", "fnn"], "did you mean 'ffn'"),
        (["--seed", "-1"], "seed -1 is out of range"),
        (["--kind", "mlp", "--key", "att"], "leave out --key"),
        (["--kind", "mixture-of-softmaxes", "--metric", "l2"], "leave out --metric"),
        (["--soft-targets", "0.5"], "leave out soft targets"),
        ([], "was built from a text without splits: give another text with --text"),
    ],
)
def test_bad_input(
    store: Entries,
    texts: dict[str, Path],
    words: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    at, valid = str(store.path), str(texts["valid"])
    given = [*words, "--text", valid] if words else []
    if "--soft-targets" in words and "--kind" in words:
        assert run(["tune", at, "--text", valid, "--exact", "--k", "4"]) == 0
        capsys.readouterr()
    assert run(["distill", at, *given]) == 2
    assert sentence in capsys.readouterr().err.strip().splitlines()[-1]


def test_a_datastore_without_ffn(
    lm: LanguageModel,
    texts: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    thin = Datastore.build(lm, texts["train"], tmp_path / "thin", keys=["att"])
    for words, advice in (
        (["--key", "ffn"], "build it with --keys ffn"),
        (["--kind", "mlp"], "holds only att: build it with --keys att,ffn"),
    ):
        assert run(["distill", str(thin.path), "--text", str(texts["valid"]), *words]) == 1
        assert capsys.readouterr().err.strip().endswith(advice)
    assert run(["eval", str(thin.path), "--text", str(texts["test"]), "--component", "head"]) == 1
    assert "has no component: make one with 'knnlm distill " in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--k", "4"],
        ["--key", "att"],
        ["--metric", "l2"],
        ["--index", "exact"],
        ["--exact"],
        ["--score", "exact"],
    ],
    ids=lambda words: words[0],
)
def test_a_component_takes_no_options_of_a_search(
    store: Entries, texts: dict[str, Path], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    sentence = f"{words[0]} belongs to a search: leave it out with --component"
    named = [*words, "--component", "head"]
    verbs = [["eval", "--text", str(texts["test"])], ["tune", "--text", str(texts["valid"])]]
    for verb, *rest in [*verbs, *([["generate", "the"]] if "--score" not in words else [])]:
        assert run([verb, str(store.path), *rest, *named]) == 2
        assert sentence in capsys.readouterr().err


class _Requested(KnnlmError):
    """Stops a command once its request is known."""


def request_of(command: str) -> DistillRequest:
    """What a command asks for; nothing is made."""
    requests: list[DistillRequest] = []

    def keep(*given: Any) -> None:
        requests.append(given[-1])
        raise _Requested

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("knnlm.api.datastore.distill", keep)
        patch.setattr(Datastore, "_validation", lambda self, text: None)
        patch.setattr(Datastore, "model", None)
        verb, *words = shlex.split(command)
        assert verb == "knnlm"
        assert run(words) == 1
    return requests[0]


_KEYS = st.sampled_from(["att", "ffn"]).map(lambda key: (key,))
_METRICS = st.sampled_from(["l2", "ip"])
_FITS = st.builds(
    lambda lr, epochs: replace(DEFAULT_FIT, lr=lr, epochs=epochs),
    st.floats(1e-9, 10, exclude_min=True),
    st.integers(1, 50),
)
_LEARNED = st.one_of(
    st.builds(
        lambda keys, size, metric: ComponentSpec(keys=keys, size=size, metric=metric),
        _KEYS,
        st.integers(1, 64),
        _METRICS,
    ),
    st.builds(
        lambda keys, size: ComponentSpec(kind="mixture-of-softmaxes", keys=keys, size=size),
        _KEYS,
        st.integers(1, 16),
    ),
    st.builds(
        lambda size: ComponentSpec(kind="mlp", keys=("att", "ffn"), size=size),
        st.integers(1, 1 << 16),
    ),
)
_CLUSTERS = st.builds(
    lambda keys, size, metric: ComponentSpec(kind="clusters", keys=keys, size=size, metric=metric),
    _KEYS,
    st.integers(1, 1 << 24),
    _METRICS,
)


@given(
    spec_and_fit=st.one_of(
        st.tuples(_LEARNED, _FITS), st.tuples(_CLUSTERS, st.one_of(st.none(), _FITS))
    ),
    name=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}", fullmatch=True).filter("knn".__ne__),
    seed=st.integers(0, (1 << 31) - 2),
)
def test_the_command_asks_for_the_same_component(
    built: Path, spec_and_fit: Any, name: str, seed: int
) -> None:
    spec, fit = spec_and_fit
    request = DistillRequest(spec=spec, name=name, fit=fit, seed=seed)
    assert request_of(request.command(built)) == request


@pytest.fixture(scope="module")
def taught(
    tmp_path_factory: pytest.TempPathFactory, lm: LanguageModel, texts: dict[str, Path]
) -> Datastore:
    """A datastore of several documents whose best neighbors are those of ffn."""
    folder = tmp_path_factory.mktemp("taught") / "documents"
    folder.mkdir()
    for i in range(3):
        (folder / f"{i}.txt").write_text(prose(i, 6))
    store = Datastore.build(lm, folder, folder.parent / "a store")
    for key, k in (("att", 1), ("ffn", 8)):
        KNNLM(store, key=key, exact=True).tune(texts["valid"], k=k)
    best = KNNLM(store).settings.retrieval
    assert best is not None
    assert best.key == "ffn"
    return store


@pytest.mark.parametrize(
    ("kind", "key"), [("head", None), ("head", "att"), ("head", "ffn"), ("mlp", None)]
)
def test_the_command_asks_for_the_same_teacher(
    taught: Datastore, kind: str, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[DistillRequest] = []

    def keep(*given: Any) -> None:
        requests.append(given[-1])
        raise _Requested

    with monkeypatch.context() as patch:
        patch.setattr("knnlm.api.datastore.distill", keep)
        patch.setattr(Datastore, "_validation", lambda self, text: None)
        with pytest.raises(_Requested):
            taught.distill(kind=kind, key=key, soft_targets=1 / 3, lr=0.1 / 3)
    (request,) = requests
    assert request.teacher is not None
    assert request.teacher.retrieval is not None
    assert request.teacher.retrieval.key == (key or "ffn")
    assert request_of(request.command(taught.path)) == request


def test_the_command_makes_the_same_component(
    taught: Datastore, texts: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    made = taught.distill(texts["valid"], soft_targets=1 / 3, seed=3, **HEAD)
    taught.distill(texts["valid"], size=2, **HEAD)
    words = shlex.split(made.record["command"])[1:]
    again = json_of(capsys, *words, "--text", texts["valid"])
    assert again["xxh3"] == made.record["xxh3"]
    assert again["command"] == made.record["command"]
    assert (again["lambda"], again["temperature"]) == (made.settings.lam, made.settings.tau)
    loaded = load_distilled(open_entries(taught.path), "head")
    assert loaded.record == made.record


def test_a_component_that_is_not_there(
    store: Entries, texts: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in ("eval", "tune"):
        words = (verb, store.path, "--text", texts["test"], "--component", "head")
        assert "has no component: make one with 'knnlm distill " in error_of(capsys, *words)
