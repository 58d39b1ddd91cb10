"""Messages of the library speak of parameters; the command line shows the flags of its verb."""

from pathlib import Path

import pytest

from knnlm.cli.main import in_commands, run


@pytest.mark.parametrize(
    ("verb", "parameter", "shown"),
    [
        ("eval", "lam", "--lambda"),
        ("generate", "lam", "--lambda"),
        ("eval", "tau", "--tau"),
        ("generate", "tau", "--tau"),
        ("generate", "temperature", "--temperature"),
        ("generate", "max_new_tokens", "--max-new-tokens"),
        ("generate", "top_p", "--top-p"),
        ("build", "path", "--out"),
        ("train", "path", "--out"),
        ("build", "att_module", "--att-module"),
        ("build", "keys", "--keys"),
        ("index", "recall", "--recall"),
        ("tune", "k", "--k"),
        ("tune", "exact", "--exact"),
        ("distill", "soft_targets", "--soft-targets"),
        ("distill", "mix", "--mix"),
        ("eval", "component", "--component"),
        # only another verb has it, and the message says to run that one
        ("eval", "keys", "--keys"),
        ("tune", "logprobs", "--logprobs"),
        ("info", "tau", "--tau"),
        ("build", "unheard_of", "unheard_of"),
    ],
)
def test_a_parameter_is_shown_as_the_verbs_flag(verb: str, parameter: str, shown: str) -> None:
    message = f"give `{parameter}`, or run 'knnlm tune' first"
    assert in_commands(message, [verb, "store"]) == f"give {shown}, or run 'knnlm tune' first"


def test_arguments_are_not_flags() -> None:
    assert in_commands("`model` is wrong", ["build"]) == "MODEL is wrong"
    assert in_commands("`store` is wrong", ["eval"]) == "STORE is wrong"
    assert in_commands("run `KNNLM.tune` first", ["eval", "--exact", "my store"]) == (
        "run 'knnlm tune 'my store'' first"
    )


def test_only_paths_below_the_working_folder_are_shortened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    elsewhere = f"/mnt{tmp_path}/x"
    assert in_commands(f"{tmp_path}/store is bad: see {elsewhere}", []) == (
        f"store is bad: see {elsewhere}"
    )
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert in_commands(f"{tmp_path}/store is bad", []) == f"{tmp_path}/store is bad"


def test_without_a_verb_parameters_are_plain() -> None:
    assert in_commands("give `lam`", []) == "give --lambda"
    assert in_commands("nothing to replace", []) == "nothing to replace"


def test_every_flag_of_a_message_at_once() -> None:
    message = "first, or give `lam` and `tau`"
    assert in_commands(message, ["eval"]) == "first, or give --lambda and --tau"
    assert in_commands(message, ["generate"]) == "first, or give --lambda and --tau"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("eval STORE --text TEST --metric ip", "or give --lambda and --tau"),
        ("generate STORE x --metric ip", "or give --lambda and --tau"),
        ("tune STORE --text TEST --index x", "or search with --exact"),
        ("tune STORE --text TEST --index x --exact", "--index and --exact exclude each other"),
        ("eval STORE --text TEST --component head --k 3", "--k belongs to a search: leave it out"),
        ("build MODEL --text TEST --out MODEL", "choose another --out for the datastore"),
        ("train --preset smoke --text TEST --out STORE", "choose another --out for the model"),
        ("generate STORE x --max-new-tokens 0", "--max-new-tokens 0 is out of range"),
        ("distill STORE --kind mlp --key att", "leave out --key"),
        (
            "distill STORE --mix a,b --size 3",
            "--size belongs to a new component: leave it out with",
        ),
    ],
)
def test_errors_show_flags(
    tuned_store: Path,
    tiny_model: Path,
    texts: dict[str, Path],
    capsys: pytest.CaptureFixture[str],
    line: str,
    words: str,
) -> None:
    paths = {"STORE": tuned_store, "MODEL": tiny_model, "TEST": texts["test"]}
    assert run([str(paths.get(word, word)) for word in line.split()]) in (1, 2)
    error = capsys.readouterr().err.splitlines()[-1]
    assert words in error
    assert "`" not in error
