"""mask-to-k: which k stored rows are nearest. Exact, or approximate with FAISS; both return
Neighbors(ids, scores).

This room knows vectors and ids. It knows nothing of tokens or probability.
"""

from knnlm.search.exact import exact_search as exact_search
from knnlm.search.index import Index as Index
from knnlm.search.index import build_index as build_index
from knnlm.search.index import list_indexes as list_indexes
from knnlm.search.index import open_index as open_index
from knnlm.search.neighbors import Neighbors as Neighbors
