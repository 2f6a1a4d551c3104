"""On which line of a data set file a field stands, for mistakes that are found after parsing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.fields import read_mapping


@dataclass(frozen=True)
class FieldLines:
    """Every field of one file by its names from the top: ``("models", "one_shot")`` → line."""

    path: Path
    lines: dict[tuple[str, ...], int]

    @classmethod
    def of(cls, path: Path) -> FieldLines:
        """Those of a file; DeclarationError unless it is YAML with a mapping at the top."""
        return cls(path, dict(_places(read_mapping(path), ())))

    def located(self, error: DeclarationError, *field: str) -> DeclarationError:
        """The same error with file and line of a field, or of the nearest one around it."""
        while field and field not in self.lines:
            field = field[:-1]
        line = self.lines.get(field, 1)
        return DeclarationError(f"{self.path}:{line}: {error}")


def _places(
    node: yaml.MappingNode, above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], int]]:
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode):
            field = (*above, str(key.value))
            yield field, key.start_mark.line + 1
            if isinstance(value, yaml.MappingNode):
                yield from _places(value, field)
