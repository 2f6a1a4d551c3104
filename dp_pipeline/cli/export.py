"""`dp-pipeline export` and `verify`: a settled release as a folder for readers, and its checks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dp_pipeline.cli.options import (
    READER,
    Document,
    Reader,
    dataset_names,
    epsilons,
    ks,
    releasing_names,
)
from dp_pipeline.config.errors import DeclarationError

if TYPE_CHECKING:
    from dp_pipeline.export.verify import Check
    from dp_pipeline.releases.export import Exported

_FORMATS = click.Choice(["csv", "parquet", "arrow"])


@click.command()
@click.argument("dataset", metavar="NAME", shell_complete=dataset_names)
@click.argument("model", required=False, default="", shell_complete=releasing_names)
@click.option("--epsilon", default="", shell_complete=epsilons, help="At this ε; else the newest.")
@click.option(
    "--k",
    default="",
    shell_complete=ks,
    help="Of a k-anonymous method: at this K; else the newest.",
)
@click.option("--window", default="", help="Of rows that are cut: of this window; else the newest.")
@click.option("--to", "target", required=True, type=click.Path(path_type=Path), help="The folder.")
@click.option("--format", "ending", type=_FORMATS, default="csv", help="Of tables.")
@click.option("--allow-not-dp", is_flag=True, help="Also what is not cleared, marked as it is.")
@READER
def export(
    dataset: str,
    model: str,
    target: Path,
    ending: str,
    allow_not_dp: bool,
    reader: Reader,
    **options: Any,
) -> None:
    """Write the newest release of a data set to a folder for readers.

    It holds tables, places and the card of MODEL, or else of the first model that the data set
    publishes. No row is read and nothing is charged. An earlier export of the same data set and
    model is replaced whole; anything else that is there stays.
    """
    from dp_pipeline.config.catalogue import find_spec
    from dp_pipeline.releases.export import Asked, find_newest_settled, require_cleared
    from dp_pipeline.releases.export import export as export_found
    from dp_pipeline.releases.home import find_home

    _require_folder("--to", target)
    spec = find_spec(dataset)
    asked = Asked.of(spec, name=model, **options)
    found = find_newest_settled(spec, find_home(), asked)
    require_cleared(found, allow_not_dp=allow_not_dp)
    exported = export_found(found, target, ending=ending)
    reader.answer(lambda: _document(exported), lambda: _print(exported))


def _require_folder(of: str, path: Path) -> None:
    """DeclarationError for an address: as a path it would be a folder called ``s3:`` here."""
    scheme = path.parts[0] if path.parts else ""
    if len(path.parts) > 1 and scheme.endswith(":"):
        raise DeclarationError(
            f"{of}: expected a folder of this computer, got an address that begins with {scheme}//:"
            " a store is written by the asset NAME/published and DP_PIPELINE_PUBLISHED, and a copy "
            "of its folder is what `dp-pipeline verify` checks"
        )


def _print(exported: Exported) -> None:
    found = exported.found
    click.echo(f"{found.words}: {found.standing}")
    for name, size in exported.files.items():
        click.echo(f"  {name}  {size:,} bytes")
    if "centres" in found.bundle.tables and not any(map(_is_geojson, exported.files)):
        click.echo("no GeoJSON: it knows longitude and latitude alone, and these are other places")
    click.echo(f"folder: {exported.folder}")
    click.echo(f"digest: sha256:{exported.digest}")
    click.echo(f"`dp-pipeline verify {exported.folder}` checks it, without a home")


def _is_geojson(name: str) -> bool:
    return name.endswith(".geojson")


def _document(exported: Exported) -> Document:
    found = exported.found
    return {
        "folder": str(exported.folder),
        "release": found.release.what,
        "dataset": found.release.spec.name,
        "model": found.release.name,
        "snapshot": found.bundle.facts["snapshot"],
        "standing": found.standing,
        "key": found.bundle.key,
        "files": dict(exported.files),
        "digest": f"sha256:{exported.digest}",
    }


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@READER
@click.pass_context
def verify(context: click.Context, folder: Path, reader: Reader) -> None:
    """Verify an exported folder from its own files.

    Digests, charges and card are compared; no home and no ledger is needed.
    Whoever changes every file and digest alike can write a whole that agrees: compare the digest
    that is printed with the one that the publisher says.
    """
    from dp_pipeline.export.folder import SUMS, digest_of_export
    from dp_pipeline.export.verify import verified

    _require_folder("FOLDER", folder)
    if not folder.is_dir():
        raise DeclarationError(f"{folder}: expected the folder of an export, got none")
    checks = verified(folder)
    bad = [one for one in checks if not one.is_good]
    digest = f"sha256:{digest_of_export(folder)}" if (folder / SUMS).is_file() else "none"
    reader.answer(
        lambda: {
            "folder": str(folder),
            "good": not bad,
            "digest": digest,
            "checks": [{"of": one.of, "good": one.is_good, "found": one.found} for one in checks],
        },
        lambda: _print_checks(checks, digest),
    )
    if bad:
        context.exit(1)


def _print_checks(checks: Sequence[Check], digest: str) -> None:
    for one in checks:
        click.echo(one.line)
    click.echo(f"digest: {digest}")
    bad = sum(not one.is_good for one in checks)
    click.echo(f"{len(checks)} checks, {bad or 'none'} bad")
