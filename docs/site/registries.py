"""The directive `registry`: every model, or every k-anonymous method, with its parameters.

.. registry:: dp_pipeline.models.MODELS
   :only: clustering
"""

import inspect
from collections.abc import Iterator
from dataclasses import Field, fields
from importlib import import_module
from typing import Any, ClassVar

from docstrings import LISTED, as_definitions
from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class RegistryDirective(SphinxDirective):
    """A section for each entry: what its docstring says, then a table of its parameters."""

    required_arguments = 1
    option_spec: ClassVar = {"only": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        module, _, name = self.arguments[0].rpartition(".")
        registry = getattr(import_module(module), name)
        found = []
        for entry in registry:
            if f".{self.options.get('only', '')}" in registry[entry].__module__:
                found.append(self._section(entry, list(_lines(registry[entry]))))
        return found

    def _section(self, name: str, lines: list[str]) -> nodes.Node:
        section = nodes.section(ids=[name.replace("_", "-")], names=[name])
        section += nodes.title(name, name)
        self.state.nested_parse(StringList(lines, source=self.arguments[0]), 0, section)
        return section


def _lines(entry: type) -> Iterator[str]:
    yield from as_definitions(inspect.cleandoc(entry.__doc__ or "").splitlines())
    shown = [one for one in fields(entry) if "expected" in one.metadata]
    yield from ("", *as_definitions(list(_inherited(entry, {one.name for one in shown}))))
    if shown:
        yield from ("", ".. list-table::", "   :header-rows: 1", "")
        yield from _row("parameter", "when not said", "expected", "another value")
        for one in shown:
            yield from _row(*_cells(one))


def _inherited(entry: type, names: set[str]) -> Iterator[str]:
    """The lines about parameters that only the docstrings of base classes explain."""
    for base in entry.__mro__:
        lines = inspect.cleandoc(base.__dict__.get("__doc__") or "").splitlines()
        found = [match for match in map(LISTED.fullmatch, lines) if match and match[1] in names]
        names = names - {match[1] for match in found}
        yield from (match[0] for match in found if base is not entry)


def _cells(one: Field[Any]) -> tuple[str, str, str, str]:
    costs = "is another release" if one.metadata["measuring"] else "costs nothing"
    default = " ".join(one.default) if isinstance(one.default, tuple) else str(one.default)
    return f"``{one.name}``", f"``{default}``" if default else "", one.metadata["expected"], costs


def _row(*cells: str) -> Iterator[str]:
    for at, cell in enumerate(cells):
        yield f"   {'* -' if at == 0 else '  -'} {cell}".rstrip()


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("registry", RegistryDirective)
    return {"parallel_read_safe": True}
