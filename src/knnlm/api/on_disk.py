"""What a datastore is on disk, and how that changes: added to, forgotten from, compacted."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from knnlm.api.changing import (
    Change,
    add_text,
    change_of,
    compact,
    forget,
    size_on_disk,
)
from knnlm.api.choices import model_of
from knnlm.api.inventory import DatastoreInfo, describe_datastore
from knnlm.api.verification import VerifyResult, verify_datastore
from knnlm.argument_types import check_types
from knnlm.components import list_components
from knnlm.datastore import Entries
from knnlm.errors import UsageError
from knnlm.files import short_path
from knnlm.models import LanguageModel
from knnlm.search import list_indexes
from knnlm.text import Text


class DatastoreOnDisk:
    """An open datastore, and the model that it was built with. `Datastore` searches it too."""

    def __init__(
        self,
        entries: Entries,
        model: str | Path | LanguageModel | None = None,
        device: str | None = None,
    ) -> None:
        if not isinstance(entries, Entries):
            raise UsageError("a Datastore is made by Datastore.build or Datastore.open: use those")
        self.entries = entries
        self._model, self._device = model, device

    def __len__(self) -> int:
        """How many entries it holds."""
        return self.entries.count

    def __repr__(self) -> str:
        keys = ", ".join(self.keys)
        return f"Datastore({short_path(self.path)!r}, {len(self):,} entries, keys {keys})"

    @property
    def path(self) -> Path:
        """The folder that it is kept in."""
        return self.entries.path

    @property
    def keys(self) -> tuple[str, ...]:
        """Which hidden states it holds."""
        return self.entries.keys

    @property
    def indexes(self) -> list[str]:
        """Names of the indexes that were built of it."""
        return list_indexes(self.entries)

    @property
    def components(self) -> list[str]:
        """Names of the components that were distilled from it."""
        return list_components(self.entries)

    @cached_property
    def model(self) -> LanguageModel:
        """The model that it was built with, opened when it is first needed."""
        return model_of(self.entries, self._model, self._device)

    @check_types
    def add(self, text: Text) -> Change:
        """Add documents: their entries come after those that are there, and every index takes them.

        An interrupted addition resumes with the same text. Models that were opened before keep the
        version that they opened.

        Args:
            text: A path or several, `Folder(…)`, `HubDataset(…)` or `PythonDocs()`.

        Returns:
            What it held before, and what it holds now.

        Raises:
            UsageError: A path of the text does not exist.
            KnnlmError: The model cannot be read or is another one, or the text is empty.

        Example:
            >>> print(store.add("new.txt"))    # doctest: +SKIP
        """
        before, size = self.entries, size_on_disk(self.entries)
        self.entries = add_text(before, self.model, text)
        return change_of(before, size, self.entries)

    @check_types
    def forget(self, documents: str | Sequence[str]) -> Change:
        """Make documents unretrievable at once: in exact search, in every index and every cache.

        Their bytes stay until `compact`. Components that were made from them are refused from now
        on.

        Args:
            documents: A name or several, as `knnlm build` or an explanation shows them.

        Returns:
            What it held before, and what it holds now.

        Raises:
            UsageError: There is no document of a name.
            KnnlmError: No entry would be left.

        Example:
            >>> print(store.forget("letters/2019.txt"))    # doctest: +SKIP
        """
        before, size = self.entries, size_on_disk(self.entries)
        names = [documents] if isinstance(documents, str) else list(documents)
        self.entries = forget(before, names)
        return change_of(before, size, self.entries)

    @check_types
    def compact(self) -> Change:
        """Remove what was forgotten from disk: entries are written again, indexes built again, and
        caches and stale components deleted.

        Returns:
            What it held before, and what it holds now.

        Raises:
            KnnlmError: An addition was begun and not finished.

        Example:
            >>> print(store.compact())    # doctest: +SKIP
        """
        before, size = self.entries, size_on_disk(self.entries)
        self.entries = compact(before)
        return change_of(before, size, self.entries)

    def info(self) -> DatastoreInfo:
        """What the datastore holds: entries, model, text, indexes, settings, components.

        Example:
            >>> print(store.info())    # doctest: +SKIP
        """
        return describe_datastore(self.entries)

    def verify(self) -> VerifyResult:
        """Compare every byte of the datastore and of what is kept with it with its checksum.

        Raises:
            DamagedError: A file is damaged or missing.

        Example:
            >>> print(store.verify())    # doctest: +SKIP
        """
        return verify_datastore(self.entries)
