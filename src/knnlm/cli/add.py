"""knnlm add"""

from knnlm.cli.groups import TextOptions
from knnlm.cli.options import Device, Json, Model, StorePath, show


def add(
    store: StorePath,
    text: TextOptions,
    model: Model = None,
    device: Device = None,
    json: Json = False,
) -> None:
    """Add documents to a datastore.

    The model reads them as it read the others, and every index takes them in. An interrupted
    addition resumes with the same command.

    Example: knnlm add store --text new.txt
    """
    named = text.named()
    from knnlm.api import Datastore

    change = Datastore.open(store, model=model, device=device).add(named)
    show(json, change.as_json(), [str(change)])
