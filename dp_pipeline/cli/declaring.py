"""`dp-pipeline data`: data sets and their files."""

from __future__ import annotations

from pathlib import Path

import click

from dp_pipeline.orchestration.anonymize_command import anonymity_line


@click.group()
def data() -> None:
    """Data sets: list them, check a file."""


@data.command("list")
def data_list() -> None:
    """List the data sets that can be run here, and those that need something."""
    from dp_pipeline.reporting.terminal import print_table
    from dp_pipeline.schema.discovery import dataset_files, is_available
    from dp_pipeline.schema.parser import load_spec

    specs = [load_spec(path) for path in dataset_files().values()]
    rows = [
        [
            spec.name,
            spec.purpose,
            str(spec.protection),
            _first_of(tuple(spec.models)),
            "yes" if is_available(spec) else f"needs {spec.source.needs}",
        ]
        for spec in specs
    ]
    print_table("Data sets", ["name", "purpose", "protected unit", "models", "available"], rows)
    anonymous = [spec.name for spec in specs if spec.k_anonymity is not None]
    click.echo(f"k-anonymous too, by `anonymize`, without any ε: {', '.join(anonymous)}")


def _first_of(names: tuple[str, ...]) -> str:
    """One or two names; of more the first, and how many others there are."""
    return " ".join(names) if len(names) < 3 else f"{names[0]} + {len(names) - 1}"


@data.command("check")
@click.argument("file", type=click.Path(path_type=Path))
def data_check(file: Path) -> None:
    """Check a data set file: declarations, models, k-anonymous methods and their parameters.
    Reads no rows.
    """
    from dp_pipeline.models import build_model, price_of_everything
    from dp_pipeline.models.base import declared_claim
    from dp_pipeline.orchestration.declared_methods import require_methods
    from dp_pipeline.schema.parser import load_spec

    spec = load_spec(file)
    require_methods(spec)
    claims = {
        name: [declared_claim(spec, build_model(spec, name), one) for one in spec.partitions]
        for name in spec.models
    }
    total = spec.currency.text(price_of_everything(spec))
    click.echo(f"{file}: a good declaration; all models at all ε cost {total}")
    without = [name for name, found in claims.items() if not all(one.is_dp for one in found)]
    if without:
        click.echo(f"not differentially private: {', '.join(without)}")
    if spec.k_anonymity is not None:
        click.echo(anonymity_line(spec))
