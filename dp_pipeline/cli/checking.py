"""`dp-pipeline data check`: is this a good declaration, and what stands in its way here?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dp_pipeline.orchestration.anonymize_command import anonymity_line

if TYPE_CHECKING:
    from dp_pipeline.schema.spec import DatasetSpec


@click.command("check")
@click.argument("file", type=click.Path(path_type=Path))
def data_check(file: Path) -> None:
    """Check a data set file: its first mistake with the line, else what all of it would cost.

    Refuses what `plan` and `run` would refuse here: a source that another population holds, an
    account that was opened otherwise, a budget that is too small. Reads no rows. Warns of a source
    that is not there, of a folder that no other command looks into, and where there is no project.
    """
    from dp_pipeline.cli.buildable import require_buildable
    from dp_pipeline.cli.surroundings import require_runnable, warnings
    from dp_pipeline.models import price_of_everything
    from dp_pipeline.schema.field_lines import FieldLines
    from dp_pipeline.schema.parser import load_spec

    spec = load_spec(file)
    require_buildable(spec, FieldLines.of(file))
    require_runnable(spec, file)
    for warning in warnings(spec, file):
        click.echo(f"warning: {warning}")
    total = spec.currency.text(price_of_everything(spec))
    click.echo(f"{file}: a good declaration; all models at all ε cost {total}")
    without = _without_epsilon(spec)
    if without:
        click.echo(f"not differentially private: {', '.join(without)}")
    if spec.k_anonymity is not None:
        click.echo(anonymity_line(spec))


def _without_epsilon(spec: DatasetSpec) -> list[str]:
    """The models that have no finite ε at some ε of the file."""
    from dp_pipeline.models import build_model
    from dp_pipeline.models.base import declared_claim

    models = {name: build_model(spec, name) for name in spec.models}
    return [
        name
        for name, model in models.items()
        if not all(declared_claim(spec, model, epsilon).is_dp for epsilon in spec.partitions)
    ]
