"""IO managers: what an asset hands on is a file, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

import dagster as dg

from dp_pipeline.ledger.home import Home
from dp_pipeline.orchestration.failures import failure_of
from dp_pipeline.orchestration.replaying import settled_bundle
from dp_pipeline.orchestration.storage import BundleStore, write_atomically
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.schema.errors import Damaged, PipelineError
from dp_pipeline.schema.formats import DOCUMENT, require_format
from dp_pipeline.schema.spec import DatasetSpec
from dp_pipeline.schema.system_errors import system_line

_AGAIN = "run the data set again, at no cost"


class PointerIOManager(dg.IOManager):
    """Which bundle is the one of a partition: a small file that names its folder.

    The bundle itself lies in the store before its charge is settled; the pointer
    is what a materialization adds. A partition that was never released loads as None.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def handle_output(self, context: dg.OutputContext, obj: dict[str, str]) -> None:
        """Point the partition at the folder of its bundle."""
        path = self._path(context.asset_key, context.partition_key)
        write_atomically(path, _document(obj))

    def load_input(self, context: dg.InputContext) -> dict[str, str] | None:
        """The pointer of one partition, or None; None for a range, which the asset refuses."""
        if len(context.asset_partition_keys) != 1:
            return None
        path = self._path(context.asset_key, context.asset_partition_key)
        pointer: dict[str, str] | None = _read_in_dagster(path)
        return pointer

    def _path(self, key: dg.AssetKey, partition: str) -> Path:
        return Path(self._root, *key.path, f"partition-{partition}.json")


class JsonIOManager(dg.IOManager):
    """One JSON file an asset or partition."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Write the value of one partition, or of an asset without partitions."""
        name = context.partition_key if context.has_partition_key else "value"
        path = Path(self._root, *context.asset_key.path, f"{name}.json")
        write_atomically(path, _document(obj))

    def load_input(self, context: dg.InputContext) -> dict[str, Any]:
        """Partition → value for all partitions that were ever written."""
        folder = Path(self._root, *context.asset_key.path)
        found = {
            key: _read_in_dagster(folder / f"{key}.json") for key in context.asset_partition_keys
        }
        return {key: value for key, value in found.items() if value is not None}


def _read_in_dagster(path: Path) -> Any:
    """``read_json``; what is wrong as one line, where no asset runs yet that could say it."""
    try:
        return read_json(path)
    except PipelineError as error:
        raise failure_of(error) from None


def _document(value: Any) -> bytes:
    """A value as ``read_json`` takes it."""
    return json.dumps({"format": DOCUMENT, "value": value}, sort_keys=True, indent=1).encode()


def read_json(path: Path) -> Any:
    """The value that was written to a file, None when there is none; UnknownFormat where another
    program wrote it, Damaged where none did, PipelineError where it cannot be read.
    """
    if not path.is_file():
        return None
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        found = stored.get("format") if isinstance(stored, dict) else None
        require_format(found, DOCUMENT, of=str(path), older=_AGAIN)
        return stored["value"]
    except OSError as error:
        raise PipelineError(system_line(error, path)) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Damaged(f"{path}: expected a document, got none: {_AGAIN}") from None


def pointed_bundle(
    spec: DatasetSpec, home: Home, pointer: Mapping[str, str], **expected: str
) -> Bundle:
    """The settled bundle that a pointer names, as it was settled.

    expected   facts of it, such as its model and ε

    Raises Damaged for a bundle that is another one, or not as it was settled.
    """
    named = PurePath(pointer["folder"])
    if named.is_absolute() or ".." in named.parts:
        raise Damaged(
            f"{spec.name}: expected a pointer to a folder in {home.released}, got one to "
            f"{pointer['folder']}: materialize it again, at no cost"
        )
    store, path = BundleStore(home.released), home.released / named
    bundle = settled_bundle(store, path, ledger=home.ledger, lineage=spec.lineage)
    for name, text in {"dataset": spec.name, **expected}.items():
        if bundle.facts.get(name) != text:
            raise Damaged(
                f"{spec.name}: {name}: expected a pointer to a release of {text}, got one to "
                f"{pointer['folder']}: materialize it again, at no cost"
            )
    return bundle
