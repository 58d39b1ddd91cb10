"""mask-to-k: which k entries of a datastore are nearest to a hidden state.

A `Retrieval` says what is searched and how it is scored: exactly, or with a FAISS index whose
recall was measured when it was built. `open_search` turns it into a function from states to
`Neighbors`; `cached_neighbors` does the same for a whole text, once, and keeps the result on disk.
This room knows vectors and ids; it knows nothing of tokens, τ or λ.
"""

from knnlm.search.cache import NEIGHBORS_KIND as NEIGHBORS_KIND
from knnlm.search.cache import CachedNeighbors as CachedNeighbors
from knnlm.search.cache import cached_neighbors as cached_neighbors
from knnlm.search.exact import check_k as check_k
from knnlm.search.exact import exact_search as exact_search
from knnlm.search.exact import with_exact_scores as with_exact_scores
from knnlm.search.factory import default_factory as default_factory
from knnlm.search.index import Index as Index
from knnlm.search.index import build_index as build_index
from knnlm.search.index import index_manifest as index_manifest
from knnlm.search.index import list_indexes as list_indexes
from knnlm.search.index import open_index as open_index
from knnlm.search.neighbors import MISSING as MISSING
from knnlm.search.neighbors import NeighborBlocks as NeighborBlocks
from knnlm.search.neighbors import Neighbors as Neighbors
from knnlm.search.neighbors import NeighborsInMemory as NeighborsInMemory
from knnlm.search.neighbors import merge as merge
from knnlm.search.neighbors import recall as recall
from knnlm.search.neighbors import top_k as top_k
from knnlm.search.other_documents import (
    neighbors_in_other_documents as neighbors_in_other_documents,
)
from knnlm.search.retrieval import EXACT as EXACT
from knnlm.search.retrieval import Retrieval as Retrieval
from knnlm.search.retrieval import Score as Score
from knnlm.search.retrieval import Search as Search
from knnlm.search.retrieval import check_index as check_index
from knnlm.search.retrieval import open_search as open_search
