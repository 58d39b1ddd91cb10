"""`knnlm reproduce` without a run: what it covers and plans, and what it refuses."""

import json
from pathlib import Path

import pytest

from knnlm.cli.main import run
from knnlm_paper.conditions import FullDatastore
from knnlm_paper.experiments import all_experiments, capacity, chosen
from knnlm_paper.plan import plan
from knnlm_paper.results import Results
from knnlm_paper.scales import SCALES, SMOKE_SCALE

pytestmark = pytest.mark.pipeline

# Every \\label of a table or figure of the paper, and every appendix: its label, or its number
# where it has none.
TABLES = {
    "tab:knn_baselines",
    "tab:input_representation",
    "tab:knn_recompute",
    "tab:knn_other_models",
    "tab:softmax_bottleneck",
    "tab:adaptive_results",
    "tab:mos_results",
    "tab:ensembling",
    "tab:overfit",
}
FIGURES = {
    "fig:overview",
    "fig:subsample_dstore_only",
    "fig:increasing_embedding_size",
    "fig:datastore_size",
    "fig:small_temperature",
    "fig:full_temperature",
    "fig:temperature",
    "fig:token_analysis_len",
    "fig:entropy",
    "fig:ensemble",
}
APPENDICES = {
    "app:generalization-knnlm",
    "app:detail_result_increasing_nv",
    "app:bottleneck-detail",
    "appendix C.1",
    "appendix C.2",
    "appendix C.3",
    "app:wordanalysis",
    "app:failed",
    "app:dist_metric",
    "app:sparsification",
    "appendix E.3",
    "app:stolen_prob",
    "app:ensembling",
    "appendix E.6",
    "app:overfitting",
    "app:soft_label",
    "app:interpolated_loss",
}
NO_EXPERIMENT = {"fig:overview"}  # a drawing of the method


def test_the_list_covers_the_paper(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["recipes"]
    assert {label for entry in listed for label in entry["labels"]} == (
        TABLES | FIGURES | APPENDICES
    ) - NO_EXPERIMENT
    assert len({entry["name"] for entry in listed}) == len(listed)
    for scale in SCALES.values():
        assert all(e.conditions for e in all_experiments(scale) if e.labels), scale.name


def test_a_label_names_its_experiment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "tab:knn_recompute", "--plan", "--json", "--scale", "paper"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 8
    assert run(["reproduce", "table3", "--plan", "--json", "--scale", "paper"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 8
    names = {
        experiment.name for experiment in chosen(SMOKE_SCALE, ["app:failed"])
    }  # an appendix of several experiments
    assert names == {
        "metric",
        "sparsity",
        "location",
        "stolen",
        "ensembles",
        "memorized",
        "soft-labels",
        "interpolated",
    }


def test_every_command_of_a_committed_record_names_an_experiment() -> None:
    records = Results.open(Path(__file__).parents[2] / "docs" / "results" / "laptop").records
    named = {record.provenance.command.split()[2] for record in records.values()}
    assert len(named) == 29
    for name in named:
        assert chosen(SMOKE_SCALE, [name]), name


def test_the_papers_own_scale_is_planned_with_its_constants(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["reproduce", "all", "--plan", "--json", "--scale", "paper"]) == 0
    found = json.loads(capsys.readouterr().out)
    steps = "\n".join(step["what"] for step in found["steps"])
    for constant in (
        "IVF4096,PQ64np",
        "112,735,284 entries",
        "286,000 updates of 3 × 3072 tokens",
        "k 1,024",
    ):
        assert constant in steps
    assert found["bytes"] > 112_735_284 * 2 * 2 * 1024  # att and ffn in fp16
    assert found["seconds"] > 0


def test_a_plan_of_what_is_learned_has_the_lm_and_its_store() -> None:
    conditions = capacity.experiment(SCALES["laptop"]).conditions
    found = plan(conditions, SCALES["laptop"], speed=1e10)
    assert [step.kind for step in found.steps][:2] == ["train", "build"]
    assert sum(step.kind == "learn" for step in found.steps) > len(
        conditions
    )  # other learning rates are tried


def test_a_plan_counts_all_entries_voting_without_a_search() -> None:
    found = plan([FullDatastore()], SCALES["laptop"], speed=1e10)
    assert [step.kind for step in found.steps] == ["train", "build", "full-datastore", "measure"]
    assert found.steps[2].seconds > 20_000 * 304_391 * 2 * 256 / 1e10


def test_a_plan_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["reproduce", "all", "--plan"]) == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "no experiment given: name some (see knnlm reproduce --list), or write 'all'"),
        (["baseline"], "unknown experiment 'baseline': did you mean 'baselines'?"),
        (["all", "--scale", "labtop"], "unknown scale 'labtop': did you mean 'laptop'?"),
        (["all", "--scale", "laptop", "--data", "nowhere"], "there is no folder nowhere"),
        (["all", "--scale", "smoke", "--data", "."], "scale smoke uses the embedded text"),
        (["all", "--scale", "laptop", "--data", "empty"], "empty has no wiki.train.tokens"),
        (["all", "--scale", "laptop"], "cannot read data set Salesforce/wikitext"),
    ],
)
def test_bad_input_gets_one_sentence(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    Path("empty").mkdir()
    assert run(["reproduce", *arguments]) in (1, 2)
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert message.startswith("knnlm: ")
    assert sentence in message


def test_a_folder_that_is_no_wikitext_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "mine.txt").write_text("some words of mine")
    out = tmp_path / "out"
    assert (
        run(
            [
                "reproduce",
                "all",
                "--scale",
                "laptop",
                "--data",
                str(tmp_path / "texts"),
                "--out",
                str(out),
            ]
        )
        == 2
    )
    assert "has no wiki.train.tokens" in capsys.readouterr().err
    assert not out.exists()


def test_a_folder_with_other_things_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    assert run(["reproduce", "all", "--scale", "smoke", "--out", str(tmp_path)]) == 1
    assert "is not empty (thesis.tex …): choose another --out" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != ".lock") == ["thesis.tex"]


@pytest.mark.parametrize("name", ["main", "./main/"])
def test_a_model_may_not_take_the_name_of_another(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["reproduce", "models", "--model", name, "--model", "main"]) == 2
    assert "is taken: rename its folder" in capsys.readouterr().err


def test_a_report_of_no_results_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["reproduce", "--report", "--out", str(tmp_path)]) == 1
    assert "holds no results: run 'knnlm reproduce all" in capsys.readouterr().err
