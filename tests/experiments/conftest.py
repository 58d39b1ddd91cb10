"""The datastore of a tiny model that tests of the search use."""

from tests.search.conftest import built as built
from tests.search.conftest import lm as lm
from tests.search.conftest import queries as queries
from tests.search.conftest import store as store
