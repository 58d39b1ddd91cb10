"""Text → documents → tokens → windows.

It comes before the equation: this room turns what a user names (paths, a Hugging Face data set, the
Python documentation) into the tokens that a model reads and predicts. `open_text` gives the
documents of a named text, `encode_documents` their token ids, and `cut_windows` cuts a document
longer than the model can read so that each of its tokens is predicted exactly once.

    for document in encode_documents(tokenizer, open_text("notes/", "train")):
        for window in cut_windows(len(document.tokens), window=512, stride=256):
            ...
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
