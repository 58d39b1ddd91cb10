"""What a datastore holds."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from knnlm.components import describe_component, list_components
from knnlm.datastore import Entries
from knnlm.evaluation import TunedSettings, load_settings
from knnlm.files import short_path
from knnlm.formats import printable
from knnlm.progress import counted
from knnlm.search import describe_index, list_indexes


@dataclass(frozen=True)
class DatastoreInfo:
    """What a datastore holds."""

    path: Path
    entries: int
    words: int
    documents: int
    parts: int
    bytes: int
    cache_bytes: int
    """What evaluation texts take: their hidden states and neighbors, searched again if deleted."""
    forgotten: int
    """Documents that are gone but not removed from disk."""
    fingerprint: str
    model_source: str
    meta: dict[str, Any]
    """The manifest's: model, text, keys, window, stride."""
    columns: dict[str, Any]
    indexes: dict[str, dict[str, Any]] = field(default_factory=dict)
    settings: list[TunedSettings] = field(default_factory=list)
    components: dict[str, dict[str, Any]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """All of it, as `knnlm info --json` prints it."""
        own = {
            name: getattr(self, name)
            for name in (
                "entries",
                "words",
                "documents",
                "parts",
                "bytes",
                "cache_bytes",
                "forgotten",
                "fingerprint",
            )
        }
        return {
            "path": str(self.path),
            **self.meta,
            **own,
            "columns": self.columns,
            "indexes": self.indexes,
            "tuned": [_flat(settings) for settings in self.settings],
            "components": self.components,
        }

    def __str__(self) -> str:
        facts = (f"  {name:<8} {fact}" for name, fact in self._facts())
        return printable("\n".join([f"{short_path(self.path)}: {self._size}", *facts]))

    def _repr_html_(self) -> str:
        from knnlm.report.document import text_table
        from knnlm.report.html import table_fragment

        rows = (("size", self._size), *self._facts())
        return table_fragment(text_table(("datastore", str(self.path)), rows))

    @property
    def _size(self) -> str:
        return (
            f"{self.entries:,} entries from {counted(self.documents, 'document')}, "
            f"{self.bytes / 1e6:,.1f} MB, {counted(self.parts, 'part')}"
        )

    def _facts(self) -> list[tuple[str, str]]:
        """Each fact and its name."""
        columns = ", ".join(f"{n} {c['dtype'].lstrip('<')}" for n, c in self.columns.items())
        model, text = self.meta["model"], self.meta["text"]
        windows = f"window {self.meta['window']}, stride {self.meta['stride']}"
        facts = [
            ("columns", columns),
            ("model", f"{model['class']} from {self.model_source} ({model['fingerprint'][:12]})"),
            *self.meta["taps"].items(),
            ("text", f"{text['kind']}, {self.words:,} words; {windows}"),
        ]
        for name, index in self.indexes.items():
            recall = f"recall@{index['recall_k']} {index['recall']:.3f}"
            facts.append(("index", f"{name}: {recall}, {index['bytes'] / 1e6:,.1f} MB"))
        facts += [("tuned", f"{settings}; {settings.validation}") for settings in self.settings]
        for name, record in self.components.items():
            made = record.get("note")
            if made is None:
                keys = " and ".join(record["keys"])
                made = f"{record['kind']} on {keys}, made with '{record.get('command', '')}'"
            facts.append(("component", f"{name}: {made}"))
        if self.forgotten:
            gone = (
                f"{counted(self.forgotten, 'document')}, on disk until the datastore is compacted"
            )
            facts.append(("gone", gone))
        if self.cache_bytes:
            cached = f"{self.cache_bytes / 1e6:,.1f} MB of evaluation texts and their neighbors"
            facts.append(("cache", f"{cached}; {short_path(self.path / 'cache')} may be deleted"))
        return facts


def describe_datastore(entries: Entries) -> DatastoreInfo:
    """What a datastore holds."""
    manifest = entries.table.manifest
    sizes = (file["bytes"] for part in manifest["parts"] for file in part["files"].values())
    return DatastoreInfo(
        path=entries.path,
        entries=entries.count,
        words=entries.words,
        documents=entries.document_count,
        parts=len(manifest["parts"]),
        bytes=sum(sizes),
        cache_bytes=sum(f.stat().st_size for f in entries.path.glob("cache/**/*") if f.is_file()),
        forgotten=len(entries.forgotten),
        fingerprint=entries.fingerprint,
        model_source=entries.model_source,
        meta=entries.meta,
        columns=manifest["columns"],
        indexes={name: describe_index(entries, name) for name in list_indexes(entries)},
        settings=load_settings(entries),
        components={name: describe_component(entries, name) for name in list_components(entries)},
    )


def _flat(settings: TunedSettings) -> dict[str, Any]:
    """Settings with the fields of their retrieval beside their own."""
    fields = settings.as_json()
    return {**(fields.pop("retrieval") or {}), **fields}
