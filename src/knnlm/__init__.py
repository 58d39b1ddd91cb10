"""knnlm: nearest-neighbor language models from any causal LM and any text.

    P = (1-λ) · softmax(W_sm · h_sm)  +  λ · M · softmax( mask-to-k(W_ds ⊗ h_ds) / τ )

Two objects: a `Datastore` holds the hidden states of a text and the tokens that followed them; a
`KNNLM` mixes a language model with what its datastore retrieves.

    store = Datastore.build("HuggingFaceTB/SmolLM2-135M", text="docs/", path="store")
    store.build_index()
    model = KNNLM(store).tune("valid.txt")
    print(model.evaluate("test.txt"))
    print(model.generate("The with statement").text)

A text is a path or several, `Folder(PATH)`, `HubDataset(NAME)` or `PythonDocs()`. Names are loaded
when they are first used, so importing knnlm costs nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
