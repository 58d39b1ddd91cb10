"""knnlm forget"""

from typing import Annotated

import typer

from knnlm.cli.options import Json, StorePath, show
from knnlm.files import short_path


def forget(
    store: StorePath,
    documents: Annotated[
        list[str],
        typer.Option("--document", metavar="NAME", help="Name of a document (repeatable)."),
    ],
    json: Json = False,
) -> None:
    """Make documents unretrievable at once.

    No search, index or cache gives them from now on. Their bytes stay on disk
    until knnlm compact.

    Example: knnlm forget store --document letters/2019.txt
    """
    from knnlm.api import Datastore

    change = Datastore.open(store).forget(documents)
    following = f"next: knnlm compact {short_path(change.path)}, which removes them from disk"
    show(json, change.as_json(), [str(change), following])
