"""One definition of the model, two paths: what `knnlm eval` sums up is what generation reports,
token by token."""

from pathlib import Path

import numpy as np
import pytest
import torch

from knnlm import KNNLM, Datastore
from knnlm.evaluation.mixing import mix
from knnlm.models.load import load_model
from knnlm.search.retrieval import Score
from tests.conftest import prose

pytestmark = pytest.mark.pipeline


@pytest.fixture(scope="module")
def store(
    tmp_path_factory: pytest.TempPathFactory, tiny_model: Path, texts: dict[str, Path]
) -> Path:
    """fp16 states and an index that is far from exact, tuned."""
    path = tmp_path_factory.mktemp("agreement") / "store"
    store = Datastore.build(tiny_model, texts["train"], path)
    store.build_index(factory="IVF8,PQ4", nprobe=2, recall=0)
    KNNLM(store).tune(texts["valid"], k=64)
    KNNLM(store, exact=True).tune(texts["valid"], k=64)
    KNNLM(store, score="exact").tune(texts["valid"], k=64)
    return path


@pytest.mark.parametrize(("exact", "score"), [(True, "exact"), (False, "index"), (False, "exact")])
def test_evaluation_and_generation_agree(
    store: Path, tmp_path: Path, exact: bool, score: Score
) -> None:
    text = tmp_path / "text.txt"
    text.write_text(prose(77, 1))  # shorter than a window: both paths see all of it
    index = None if exact else Datastore.open(store).indexes[0]
    tuned = KNNLM(store, exact=exact, index=index, score=score)
    evaluated = tuned.evaluate(text)
    retrieval = evaluated.settings.retrieval
    assert retrieval is not None
    assert (retrieval.exact, retrieval.score) == (exact, score)
    queries = tuned.store.queries(text)
    lm = queries.lm_logprob.astype(np.float64)
    wanted = mix(lm, tuned.component.target_logprobs(queries), tuned.settings.lam)
    assert np.exp(-wanted.mean()) == pytest.approx(evaluated.interp_ppl)

    model = tuned.to_transformers()
    tokens = torch.tensor([queries.documents[0].first_token, *queries.targets.tolist()])
    np.testing.assert_allclose(model.score_tokens(tokens).mixed, wanted, atol=1e-4)
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
    tuned = KNNLM(store, exact=True).to_transformers()
    retrieval = tuned.config.tuned.retrieval
    assert retrieval is not None
    assert retrieval.exact
    model = KNNLM(store, exact=True, lam=0.5, tau=2.0, k=7).to_transformers()
    given = model.config.tuned
    assert given.retrieval is not None
    assert (given.lam, given.tau, given.retrieval.k) == (0.5, 2.0, 7)
    assert tuned.entries.count == model.entries.count


def test_an_open_model_is_used_as_it_is(store: Path, tiny_model: Path) -> None:
    lm = load_model(tiny_model)
    assert KNNLM(store, model=lm).to_transformers().base is lm.model
