"""The objects that users hold: `Datastore` and `KNNLM`, and `train` for a base LM from scratch.

Each method decides what the user left open (choices.py) and hands over to the room that does the
work; results show themselves in a terminal and in a notebook (results.py).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
