"""A folder of Parquet files: which files are its rows, in which order."""

from __future__ import annotations

from pathlib import Path


def parquet_parts(folder: Path) -> list[Path]:
    """Every ``*.parquet`` below a folder, by the path from there; as elsewhere, what begins with
    ``_`` or a point is an engine's own.
    """
    names = sorted(path.relative_to(folder) for path in folder.rglob("*.parquet"))
    return [folder / name for name in names if not any(map(_is_engines_own, name.parts))]


def _is_engines_own(name: str) -> bool:
    return name.startswith(("_", "."))
