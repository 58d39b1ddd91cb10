"""What a person gets who makes a mistake: one sentence with the cause and the next step, an exit
code, no loss."""

import json
import shutil
from pathlib import Path

import pytest

from knnlm.cli.main import run
from knnlm.disk import checksum_file
from knnlm.files import read_json, write_json
from knnlm.formats import visible

pytestmark = pytest.mark.pipeline


@pytest.fixture(scope="module")
def built(
    tmp_path_factory: pytest.TempPathFactory, tiny_model: Path, texts: dict[str, Path]
) -> Path:
    out = tmp_path_factory.mktemp("bad") / "store"
    assert run(["build", str(tiny_model), "--text", str(texts["train"]), "--out", str(out)]) == 0
    return out


@pytest.fixture
def store(built: Path, tmp_path: Path) -> Path:
    shutil.copytree(built, tmp_path / "store")
    return tmp_path / "store"


def complaint(capsys: pytest.CaptureFixture[str], code: int, *arguments: object) -> str:
    """Run a command that must fail with `code`; its complaint must be one line on stderr."""
    capsys.readouterr()
    assert run([str(a) for a in arguments]) == code
    output = capsys.readouterr()
    assert output.out == ""
    lines = [line for line in output.err.splitlines() if line.startswith("knnlm: ")]
    assert len(lines) == 1, output.err
    assert "Traceback" not in output.err
    return lines[0]


def test_texts(capsys: pytest.CaptureFixture[str], tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "short.txt").write_text("the cat")
    build = ("build", tiny_model, "--out", tmp_path / "out", "--text")
    assert "no file or folder" in complaint(capsys, 2, *build, tmp_path / "nowhere.txt")
    assert "text is empty" in complaint(capsys, 1, *build, tmp_path / "empty.txt")
    assert "name one text" in complaint(capsys, 2, "build", tiny_model, "--out", tmp_path / "out")
    train = ("train", "--preset", "smoke", "--out", tmp_path / "model", "--text")
    assert "fewer than one window" in complaint(capsys, 1, *train, tmp_path / "short.txt")
    assert "training text is empty" in complaint(capsys, 1, *train, tmp_path / "empty.txt")
    (tmp_path / "line.txt").write_text("the cat sat on the mat\n" * 30)
    complained = complaint(capsys, 1, *train, tmp_path / "line.txt")
    assert "the validation text has" in complained
    assert "give more text, another text with --valid, or a preset" in complained


def test_models(capsys: pytest.CaptureFixture[str], texts: dict[str, Path], tmp_path: Path) -> None:
    rest = ("--text", texts["train"], "--out", tmp_path / "out")
    (tmp_path / "folder").mkdir()
    assert "not a model folder" in complaint(capsys, 1, "build", tmp_path / "folder", *rest)
    assert "cannot open model" in complaint(
        capsys, 1, "build", "no-such-owner/no-such-model", *rest
    )
    assert "unknown preset 'smok': did you mean 'smoke'?" in complaint(
        capsys, 2, "train", "--preset", "smok", "--text", texts["train"], "--out", tmp_path / "m"
    )


def test_numbers_out_of_range(
    capsys: pytest.CaptureFixture[str], store: Path, tiny_model: Path, texts: dict[str, Path]
) -> None:
    tune = ("tune", store, "--text", texts["valid"], "--exact")
    assert "k = 0 is out of range" in complaint(capsys, 2, *tune, "--k", "0")
    assert "k = 5000 is out of range" in complaint(capsys, 2, *tune, "--k", "5000")
    assert "not a list of whole numbers" in complaint(capsys, 2, *tune, "--k", "1.5")
    assert "retrieval temperature -1.0 is out of range" in complaint(
        capsys, 2, *tune, "--k", "9", "--taus", "-1"
    )
    assert "not a list of numbers" in complaint(capsys, 2, *tune, "--k", "9", "--taus", "warm")
    assert run([str(a) for a in (*tune, "--k", "9")]) == 0
    check = ("eval", store, "--text", texts["test"])
    assert "lambda 1.5 is out of range" in complaint(capsys, 2, *check, "--lambda", "1.5")
    assert "retrieval temperature 0.0 is out of range" in complaint(capsys, 2, *check, "--tau", "0")
    assert "unknown metric 'cosine'" in complaint(capsys, 2, *tune, "--metric", "cosine")
    build = ("build", tiny_model, "--out", store.parent / "new", "--text", texts["test"])
    assert "unknown key 'at'" in complaint(capsys, 2, *build, "--keys", "at")
    assert "window 8 with stride 9 is impossible" in complaint(
        capsys, 2, *build, "--window", "8", "--stride", "9"
    )
    assert "longer than the model's 24 positions" in complaint(capsys, 2, *build, "--window", "25")
    assert "unknown dtype 'int8'" in complaint(capsys, 2, *build, "--dtype", "int8")


def test_a_datastore_of_another_model(
    capsys: pytest.CaptureFixture[str],
    store: Path,
    tiny_model: Path,
    texts: dict[str, Path],
    tmp_path: Path,
) -> None:
    import torch
    import transformers

    other = tmp_path / "other"
    shutil.copytree(tiny_model, other)
    model = transformers.AutoModelForCausalLM.from_pretrained(other)
    with torch.no_grad():
        model.get_output_embeddings().weight[3, 2] += 1e-3
    model.save_pretrained(other)
    line = complaint(
        capsys, 1, "tune", store, "--text", texts["valid"], "--exact", "--model", other
    )
    assert "was built with another model" in line


def test_an_untuned_datastore_and_a_missing_index(
    capsys: pytest.CaptureFixture[str], store: Path, texts: dict[str, Path]
) -> None:
    check = ("eval", store, "--text", texts["test"])
    advised = f"is not tuned: run 'knnlm tune {store} --text VALID' first, or give --lambda and"
    assert advised in complaint(capsys, 1, *check)
    for command in (("serve", store), ("explore", store), ("generate", store, "the cat")):
        assert advised in complaint(capsys, 1, *command)
    line = complaint(capsys, 1, "generate", store, "the cat", "--key", "ffn", "--exact")
    assert f"run 'knnlm tune {store} --text VALID --key ffn --exact' first" in line
    assert "has no index: build one" in complaint(
        capsys, 1, "tune", store, "--text", texts["valid"], "--index", "x"
    )
    assert "exclude each other" in complaint(capsys, 2, *check, "--index", "x", "--exact")


def test_damage_to_a_datastore(
    capsys: pytest.CaptureFixture[str], store: Path, texts: dict[str, Path]
) -> None:
    part = store / "parts" / "000000" / "att.npy"
    whole = part.read_bytes()
    part.write_bytes(whole[:-7])
    assert "att.npy is damaged" in complaint(capsys, 1, "info", store)
    flipped = bytearray(whole)
    flipped[5000] ^= 1
    part.write_bytes(flipped)
    for command in (
        ("verify", store),
        ("index", store),
        ("tune", store, "--text", texts["valid"], "--exact"),
    ):
        assert "att.npy is damaged (its checksum differs)" in complaint(capsys, 1, *command)
    part.write_bytes(whole)
    assert run(["verify", str(store)]) == 0


def test_a_manifest_from_the_future_or_of_something_else(
    capsys: pytest.CaptureFixture[str], store: Path, tmp_path: Path
) -> None:
    manifest = store / "manifest.json"
    write_json(manifest, {**read_json(manifest), "format": 99})
    assert "has format 99 but this knnlm reads up to 2: install a newer knnlm" in complaint(
        capsys, 1, "info", store
    )
    manifest.write_text(json.dumps(["not", "an", "object"]))
    assert "manifest.json is damaged" in complaint(capsys, 1, "info", store)
    manifest.write_text("{")
    assert "manifest.json is damaged (it is not JSON)" in complaint(capsys, 1, "info", store)
    assert "is not a datastore" in complaint(capsys, 1, "info", tmp_path)


def test_a_second_text_does_not_overwrite_a_datastore(
    capsys: pytest.CaptureFixture[str], store: Path, tiny_model: Path, texts: dict[str, Path]
) -> None:
    before = {p: p.read_bytes() for p in store.rglob("*") if p.is_file()}
    line = complaint(capsys, 1, "build", tiny_model, "--text", texts["test"], "--out", store)
    assert "was made from something else (other text): " in line
    assert "adds documents to a datastore" in line
    assert "choose another --out, or delete that one and build again" in line
    assert {p: p.read_bytes() for p in store.rglob("*") if p.is_file()} == before


def test_an_unwritable_folder(
    capsys: pytest.CaptureFixture[str], tiny_model: Path, texts: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    line = complaint(
        capsys,
        1,
        "build",
        tiny_model,
        "--text",
        texts["test"],
        "--out",
        tmp_path / "file" / "store",
    )
    assert "cannot write" in line


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        (["tune"], "knnlm: interrupted: run the same command again to resume"),
        (["info"], "knnlm: interrupted"),
        (["serve"], "knnlm: interrupted"),
    ],
)
def test_ctrl_c_says_how_to_resume_what_resumes(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    store: Path,
    verb: list[str],
    said: str,
) -> None:
    import knnlm.datastore

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(knnlm.datastore, "open_entries", interrupted)
    assert complaint(capsys, 1, *verb, store) == said


@pytest.mark.parametrize("verb", ["serve", "explore"])
def test_ctrl_c_stops_a_server_and_that_is_all_it_says(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tuned_store: Path,
    verb: str,
) -> None:
    import knnlm.integrations.server.run as server

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(server, "serve", interrupted)
    assert run([verb, str(tuned_store)]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "stopped"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("distill STORE --text VALID --seed 18446744073709551616", "seed 18446744073709551616 is"),
        ("distill STORE --text VALID --seed 2147483647", "out of range: choose 0 to 2147483646"),
        (
            "generate STORE the --seed 36893488147419103232 --lambda 0 --tau 1",
            "9223372036854775807",
        ),
        (
            "train --text VALID --preset smoke --out NEW --seed 18446744073709551616",
            "choose 0 to 4",
        ),
        ("build MODEL --text VALID --out NEW --device meta", "computed on device meta: choose cpu"),
        ("index STORE --factory IVF0,Flat", "--factory IVF0,Flat has a number that is 0: choose 1"),
        ("index STORE --factory PQ8x0", "--factory PQ8x0 has a number that is 0"),
        ("index STORE --factory HNSW00", "--factory HNSW00 has a number that is 0"),
        ("index STORE --factory IVF99999999999999,Flat", "FAISS cannot make 'IVF99999999999999,Fl"),
    ],
)
def test_numbers_that_libraries_cannot_take(
    capsys: pytest.CaptureFixture[str],
    built: Path,
    tiny_model: Path,
    texts: dict[str, Path],
    tmp_path: Path,
    words: str,
    sentence: str,
) -> None:
    names = {"STORE": built, "VALID": texts["valid"], "MODEL": tiny_model, "NEW": tmp_path / "new"}
    assert sentence in complaint(capsys, 2, *(names.get(word, word) for word in words.split()))


def test_files_that_are_nested_too_deep(
    capsys: pytest.CaptureFixture[str], store: Path, tiny_model: Path, tmp_path: Path
) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "the cat", "more": ' + deep + "}\n")
    build = ("build", tiny_model, "--out", tmp_path / "out", "--text", rows)
    assert "rows.jsonl line 1 is not a JSON object" in complaint(capsys, 1, *build)
    for name in ("tuned.json", "kept.json", "manifest.json"):
        (store / name).write_text('{"settings": ' + deep + "}")
        assert f"{name} is damaged (it is not JSON)" in complaint(capsys, 1, "verify", store)


def test_names_that_are_not_utf8(
    capsys: pytest.CaptureFixture[str],
    store: Path,
    tiny_model: Path,
    texts: dict[str, Path],
    tmp_path: Path,
) -> None:
    """Folders may have them, and FAISS and safetensors open nothing there."""
    odd, text = tmp_path / "odd\udcff", texts["valid"]
    sentence = "odd‹U+DCFF› has bytes that are not UTF-8, and libraries cannot open files there"
    train = ("train", "--preset", "smoke", "--text", text, "--out", odd)
    assert sentence in complaint(capsys, 2, "build", tiny_model, "--text", text, "--out", odd)
    assert sentence in complaint(capsys, 2, *train)
    try:
        store.rename(odd)
    except OSError:
        return  # not on this system
    assert sentence in complaint(capsys, 2, "index", odd)
    assert "libraries cannot open files there" in complaint(
        capsys, 2, "distill", odd, "--text", text
    )
    assert "unknown preset 'x‹U+DCFF›'" in complaint(capsys, 2, *train[:2], "x\udcff", *train[3:])
    assert run(["verify", str(odd)]) == 0
    assert "odd‹U+DCFF›" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["\ud800", "a\udcffb", "\x1b[2J"])
def test_names_of_documents_that_have_no_encoding(
    capsys: pytest.CaptureFixture[str], store: Path, name: str
) -> None:
    """They come from a manifest that somebody else wrote."""
    file, manifest = store / "parts/000000/documents.json", read_json(store / "manifest.json")
    documents = json.loads(file.read_text())
    documents[0][0] = name
    file.write_text(json.dumps(documents))
    sized = {"bytes": file.stat().st_size, "xxh3": checksum_file(file)}
    manifest["parts"][0]["files"]["documents.json"] = sized
    write_json(store / "manifest.json", manifest)
    generate = ("generate", store, "the cat", "--explain", "--max-new-tokens", 2)
    assert run([str(word) for word in [*generate, "--lambda", 0.5, "--tau", 1]]) == 0
    assert f"({visible(name)})" in capsys.readouterr().out
    assert "unknown document 'x'" in complaint(capsys, 2, "forget", store, "--document", "x")
