"""W_ds: the entries of a text under a model, on disk, one for each predicted token.

The entries of a training text are the datastore; those of a validation or test text are the
queries. Both are `Entries`, made by `build_entries`, opened by `open_entries`. Beneath them is the
table: immutable parts of standard .npy columns that exist once a manifest names them, so that a
killed build resumes and every damaged byte is noticed."""

from knnlm.datastore.build import build_entries as build_entries
from knnlm.datastore.build import resolve_window as resolve_window
from knnlm.datastore.entries import ENTRIES_KIND as ENTRIES_KIND
from knnlm.datastore.entries import DocumentInfo as DocumentInfo
from knnlm.datastore.entries import Entries as Entries
from knnlm.datastore.entries import evenly_spaced as evenly_spaced
from knnlm.datastore.entries import open_entries as open_entries
from knnlm.datastore.table import MANIFEST as MANIFEST
from knnlm.datastore.table import Column as Column
from knnlm.datastore.table import ColumnType as ColumnType
from knnlm.datastore.table import Table as Table
from knnlm.datastore.table import open_table as open_table
from knnlm.datastore.table import verify_table as verify_table
from knnlm.datastore.table_writer import TableWriter as TableWriter
