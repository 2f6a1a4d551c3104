"""deploy/docker-compose.yaml as a container engine reads it: with its variables filled in."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[2] / "deploy"
_VARIABLE = re.compile(r"\$\{(\w+):\?[^}]*\}")
_OPTIONAL = re.compile(r"\$\{(\w+):-([^}]*)\}")


def text() -> str:
    return (FOLDER / "docker-compose.yaml").read_text(encoding="utf-8")


def variables() -> set[str]:
    return set(_VARIABLE.findall(text()))


def composed(values: Mapping[str, str]) -> Mapping[str, Any]:
    """The file with ``values`` in the place of its variables; KeyError for one that is missing."""
    filled = _VARIABLE.sub(lambda found: values[found[1]], text())
    filled = _OPTIONAL.sub(lambda found: values.get(found[1], found[2]), filled)
    found: Mapping[str, Any] = yaml.safe_load(filled)
    return found
