"""W_ds: what a model saw in a text, on disk, one row per predicted token.

The rows of a training text are the datastore; the rows of a validation or test text are the queries. One format, one
writer, one reader, one check. This room knows rows and bytes; it knows nothing of search or probability.
"""

from knnlm.states.build import build_states as build_states
from knnlm.states.store import Store as Store
from knnlm.states.store import open_store as open_store
from knnlm.states.table import Column as Column
from knnlm.states.table import Table as Table
from knnlm.states.table import TableWriter as TableWriter
from knnlm.states.table import open_table as open_table
from knnlm.states.table import verify_table as verify_table
