"""W_ds: the entries of a text under a model, on disk, one for each predicted token.

The entries of a training text are the datastore; those of a validation or test text are the
queries. Both are `Entries`, made by `build_entries`, opened by `open_entries`. Beneath them is the
table: immutable parts of standard .npy columns that exist once a manifest names them, so that a
killed build resumes and every damaged byte is noticed."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
