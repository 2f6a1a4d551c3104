"""`dp-pipeline export` and `verify`: a settled release as a folder for readers, and its checks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dp_pipeline.cli.options import DATASET, READER, Reader, epsilons, ks, release_names
from dp_pipeline.config.errors import DeclarationError

if TYPE_CHECKING:
    from dp_pipeline.releases.export import Export

_FORMATS = click.Choice(["csv", "parquet", "arrow"])
_EPSILON = "The ε; by default that of the newest release."
_K = "The K of a k-anonymous method; by default that of the newest release."
_ALLOW_NOT_DP = "Export a release that is not releasable too, and mark it."


@click.command()
@DATASET
@click.argument("model", required=False, default="", shell_complete=release_names)
@click.option("--epsilon", default="", shell_complete=epsilons, help=_EPSILON)
@click.option("--k", default="", shell_complete=ks, help=_K)
@click.option("--window", default="", help="The time window; by default the newest.")
@click.option("--to", "target", required=True, type=click.Path(path_type=Path), help="The folder.")
@click.option("--format", "ending", type=_FORMATS, default="csv", help="The format of tables.")
@click.option("--allow-not-dp", is_flag=True, help=_ALLOW_NOT_DP)
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
    from dp_pipeline.releases.export import ExportRequest, find_newest_settled, require_cleared
    from dp_pipeline.releases.export import export as export_found
    from dp_pipeline.releases.home import find_home

    require_folder("--to", target)
    spec = find_spec(dataset)
    request = ExportRequest.of(spec, name=model, **options)
    settled = find_newest_settled(spec, find_home(), request)
    require_cleared(settled, allow_not_dp=allow_not_dp)
    exported = export_found(settled, target, ending=ending)
    reader.print_output(lambda: _document(exported), lambda: _print(exported))


def require_folder(of: str, path: Path) -> None:
    """Raise DeclarationError for an address such as ``s3://``, and for an absent folder to read.

    of   name of the option or argument, for messages; the folder of ``--to`` is one to write
    """
    scheme = path.parts[0] if path.parts else ""
    if len(path.parts) > 1 and scheme.endswith(":"):
        remedy = "copy the folder of the export here, and name that"
        if of == "--to":
            remedy = "name a folder, and set DP_PIPELINE_PUBLISHED to publish to a store"
        raise DeclarationError(
            f"{of}: the place must be a folder of this computer, not an address that begins with "
            f"{scheme}//: {remedy}"
        )
    if of != "--to" and not path.is_dir():
        raise DeclarationError(f"{path} is not a folder: name the folder of an export")


def _print(exported: Export) -> None:
    settled = exported.settled
    click.echo(f"{settled.words}: {settled.standing}")
    for name, size in exported.files.items():
        click.echo(f"  {name}  {size:,} bytes")
    has_geojson = any(name.endswith(".geojson") for name in exported.files)
    if "centres" in settled.bundle.tables and not has_geojson:
        click.echo("no GeoJSON file: the centres are not longitudes and latitudes")
    click.echo(f"folder: {exported.folder}")
    click.echo(f"digest: sha256:{exported.digest}")
    click.echo(f"`dp-pipeline verify {exported.folder}` verifies it without a home")


def _document(exported: Export) -> dict[str, Any]:
    settled = exported.settled
    return {
        "folder": str(exported.folder),
        "release": settled.release.what,
        "dataset": settled.release.spec.name,
        "model": settled.release.name,
        "snapshot": settled.bundle.facts["snapshot"],
        "standing": settled.standing,
        "key": settled.bundle.key,
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
    A forger can change every file and digest alike: compare the printed digest with the one that
    the publisher names.
    """
    from dp_pipeline.export.folder import SUMS, digest_of_export
    from dp_pipeline.export.verify import verify_export

    require_folder("FOLDER", folder)
    checks = verify_export(folder)
    bad = [check for check in checks if not check.is_good]
    digest = f"sha256:{digest_of_export(folder)}" if (folder / SUMS).is_file() else "none"
    lines = [*(check.line for check in checks), f"digest: {digest}"]
    lines.append(f"{len(checks)} checks, {len(bad) or 'none'} failed")
    results = [{"of": each.of, "good": each.is_good, "found": each.result} for each in checks]
    reader.print_output(
        lambda: {"folder": str(folder), "good": not bad, "digest": digest, "checks": results},
        lambda: click.echo("\n".join(lines)),
    )
    if bad:
        context.exit(1)
