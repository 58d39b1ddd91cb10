"""mask-to-k: which k entries of a datastore are nearest to a hidden state.

A `Retrieval` says what is searched and how it is scored: exactly, or with a FAISS index whose
recall was measured when it was built. `open_search` turns it into a function from states to
`Neighbors`; `cached_neighbors` does the same for a whole text, once, and keeps the result on disk.
This room knows vectors and ids; it knows nothing of tokens, τ or λ.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
