"""Makes the explorer's examples: real texts, scored by a running server, in one file of a page.

    knnlm serve STORE --exact --port 8017 &
    python docs/explorer_examples.py http://127.0.0.1:8017 "About model and text." SOURCE NAMES

The texts are below: none of them is in the Python documentation, all speak of what it speaks of.
SOURCE is an address where a reader finds such documents: the page links to it. NAMES says in a few
words what the examples were recorded with ("SmolLM2 and Python's documentation"). Scores and
log-probabilities are rounded; the page still gives P to three digits."""

import json
import sys
import urllib.request
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "src/knnlm/integrations/explorer/examples.js"
_PASSAGES = 5  # neighbors of a token whose passages are kept
TEXTS = {
    "A documented method": (
        ".. method:: Box.pop(name)\n\n   Remove and return the item with the given name. Raises "
        ":exc:`KeyError` if\n   there is no such item.\n\n   .. versionchanged:: 3.9\n      Added "
        "the *default* parameter.\n",
        "The documentation has no class Box. The text was written for this page and gains more "
        "than most.",
    ),
    "Reading a CSV file": (
        "import csv\n\nwith open('eggs.csv', newline='') as csvfile:\n"
        "    reader = csv.DictReader(csvfile)\n    for row in reader:\n"
        "        print(row['name'])\n",
        "The program was written for this page; its names are those of the documentation.",
    ),
    "A story": (
        "The river rose in the night, and by morning the lower road was gone.",
        "The documentation has nothing like it: its votes hurt.",
    ),
}


def ask(url: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """The server's answer."""
    sent = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, sent, {"content-type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def example(url: str, name: str, text: str, about: str) -> dict[str, Any]:
    """One text with everything that the page needs."""
    answer = ask(url, "/api/score", {"text": text, "votes": True, "neighbors": _PASSAGES})
    for token in answer["tokens"]:
        del token["top"]
        for known in token["lm_top"]:
            known["logprob"] = round(known["logprob"], 5)
    for position in answer["votes"]["positions"]:
        position["scores"] = [round(score, 3) for score in position["scores"]]
        position["lm_logprobs"] = [round(log, 3) for log in position["lm_logprobs"]]
    return {"name": name, "about": about, "text": text, "answer": answer}


def main(url: str, about: str, source: str, recorded_with: str) -> None:
    """Write the file."""
    examples = [example(url, name, *given) for name, given in TEXTS.items()]
    page = {
        "recorded_with": recorded_with,
        "about": about,
        "source": source,
        "metric": ask(url, "/api/info")["metric"],
        "examples": examples,
    }
    made = json.dumps(page, ensure_ascii=False)
    # what could end a script early is escaped; JSON is JavaScript otherwise
    made = made.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    FILE.write_text(f"const EXAMPLES = {made};\n", encoding="utf-8")
    print(f"{FILE.name}: {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
