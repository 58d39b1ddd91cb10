"""One definition of the model, two paths: what `knnlm eval` sums up is what generation reports,
token by token."""

from pathlib import Path

import numpy as np
import pytest
import torch

import knnlm
from knnlm.evaluation.mixing import mix
from knnlm.evaluation.tuning import score
from knnlm.models.load import load_model
from tests.conftest import prose

pytestmark = pytest.mark.pipeline


@pytest.fixture(scope="module")
def store(
    tmp_path_factory: pytest.TempPathFactory, tiny_model: Path, texts: dict[str, Path]
) -> Path:
    """fp16 states and an index that is far from exact, tuned."""
    where = tmp_path_factory.mktemp("agreement") / "store"
    knnlm.build(tiny_model, where, texts["train"])
    knnlm.index(where, factory="IVF8,PQ4", nprobe=2, recall_floor=0)
    knnlm.tune(where, texts["valid"], k=64)
    knnlm.tune(where, texts["valid"], k=64, mask="exact")
    knnlm.tune(where, texts["valid"], k=64, score="exact")
    return where


@pytest.mark.parametrize(
    ("mask", "score_kind"), [("exact", "exact"), (None, "index"), (None, "exact")]
)
def test_evaluation_and_generation_agree(
    store: Path, tmp_path: Path, mask: str | None, score_kind: str
) -> None:
    text = tmp_path / "text.txt"
    text.write_text(prose(77, 1))  # shorter than a window: both paths see all of it
    tuned, evaluated = knnlm.evaluate(store, text, mask=mask, score=score_kind)  # type: ignore[arg-type]
    opened = knnlm.open_entries(store)
    from knnlm.api import queries

    rows = queries(opened, knnlm.source(text))
    scored = score(opened, rows, tuned)
    wanted = mix(scored.lm, scored.knn, tuned.lam)
    assert np.exp(-wanted.mean()) == pytest.approx(evaluated.interp_ppl)

    model, _ = knnlm.load(store, mask=mask, score=score_kind)  # type: ignore[arg-type]
    tokens = torch.tensor([rows.documents[0].first_token, *rows.targets.tolist()])
    np.testing.assert_allclose(model.look(tokens).mixed, wanted, atol=1e-4)
    with torch.inference_mode():
        logits = model(input_ids=tokens[None]).logits[0]
    np.testing.assert_allclose(
        logits[:-1].gather(1, tokens[1:, None])[:, 0].numpy(), wanted, atol=1e-4
    )
    for t in (1, 5, len(tokens) - 1):  # a step of generate(): its score of the true token
        step = model.generate(
            tokens[None, :t],
            attention_mask=torch.ones(1, t, dtype=torch.long),
            max_new_tokens=1,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
            pad_token_id=0,
        )
        assert step.logits[0][0, tokens[t]].item() == pytest.approx(wanted[t - 1], abs=1e-4)


def test_a_loaded_model_has_the_tuned_settings_or_the_given_ones(store: Path) -> None:
    tuned, _ = knnlm.load(store, mask="exact")
    assert tuned.config.retrieval.exact
    given, _ = knnlm.load(store, mask="exact", lam=0.5, temperature=2.0, k=7)
    assert (given.config.lam, given.config.tau, given.config.retrieval.k) == (0.5, 2.0, 7)
    assert tuned.store.count == given.store.count


def test_an_open_model_is_used_as_it_is(store: Path, tiny_model: Path) -> None:
    lm = load_model(tiny_model)
    assert knnlm.load(store, model=lm).model.base is lm.model
