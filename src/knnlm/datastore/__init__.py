"""W_ds: what a model saw in a text, on disk, one row per predicted token.

The rows of a training text are the datastore; the rows of a validation or test text are the
queries. One format, one writer, one reader, one check. This room knows rows and bytes; it knows
nothing of search or probability."""

from knnlm.datastore.build import build_entries as build_entries
from knnlm.datastore.entries import Entries as Entries
from knnlm.datastore.entries import open_entries as open_entries
from knnlm.datastore.table import Column as Column
from knnlm.datastore.table import Table as Table
from knnlm.datastore.table import TableWriter as TableWriter
from knnlm.datastore.table import open_table as open_table
from knnlm.datastore.table import verify_table as verify_table
