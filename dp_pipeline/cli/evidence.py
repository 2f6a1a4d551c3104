"""`dp-pipeline evidence`: what an exported folder proves of itself, and the loss of its noise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dp_pipeline.cli.export import require_folder
from dp_pipeline.cli.options import READER, Reader
from dp_pipeline.config.errors import Damaged, DeclarationError

if TYPE_CHECKING:
    from dp_pipeline.gate.measured_loss import MeasuredLoss


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@READER
@click.pass_context
def evidence(context: click.Context, folder: Path, reader: Reader) -> None:
    """Show the evidence of an export, and test its noise.

    Registry entry, checklist and draft of an impact assessment lie in its folder `evidence`. Noise
    of the recorded scales is drawn anew, and the privacy loss that it shows is compared with the
    claimed one; no home and no ledger is needed. Exit code 1 where it is larger.
    """
    import json

    import yaml

    from dp_pipeline.export.evidence import TITLES, filled_share
    from dp_pipeline.export.folder import RELEASE, read_descriptor
    from dp_pipeline.gate.measured_loss import measure_losses
    from dp_pipeline.results.bundle import Bundle

    require_folder("FOLDER", folder)
    missing = [path for path in (RELEASE, *TITLES) if not (folder / path).is_file()]
    if missing:
        raise DeclarationError(
            f"{folder} must be the export of a release with ε that is cleared for publication, "
            f"but it has no {missing[0]}: fetch the export again if it is one, else export such a "
            "release by `dp-pipeline export`"
        )
    read_descriptor(folder)
    path = folder / next(iter(TITLES))
    try:
        share = filled_share(yaml.safe_load(path.read_text(encoding="utf-8")))
        path = folder / RELEASE
        # The charges alone: `verify` compares the tables.
        stored = json.loads(path.read_text(encoding="utf-8")) | {"tables": {}}
        bundle = Bundle.from_json(json.dumps(stored), {})
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError):
        raise Damaged(f"{path} is not as it was exported: fetch the export again") from None
    losses = measure_losses(bundle.spends, bundle.facts["noise"])
    reader.print_output(
        lambda: {
            "folder": str(folder),
            "files": {path: str(folder / path) for path in TITLES},
            "registry_fields_filled": share,
            "losses": [
                {**vars(loss), "scale": str(loss.scale), "violated": loss.is_violated}
                for loss in losses
            ],
        },
        lambda: _print_evidence(folder, share, losses),
    )
    if any(loss.is_violated for loss in losses):
        context.exit(1)


def _print_evidence(folder: Path, share: float, losses: Sequence[MeasuredLoss]) -> None:
    from dp_pipeline.export.evidence import TITLES

    for path, title in TITLES.items():
        click.echo(f"{folder / path}: {title}")
    click.echo(f"registry entry: tier 3, {100 * share:.0f} % of its fields are filled")
    for loss in losses:
        verdict = "VIOLATION" if loss.is_violated else "no evidence of violation"
        click.echo(
            f"{loss.mechanism}, scale {float(loss.scale):.6g}, {loss.units} units apart: claimed "
            f"{loss.claimed:.4f}, seen at least {loss.seen:.4f}: {verdict}"
        )
