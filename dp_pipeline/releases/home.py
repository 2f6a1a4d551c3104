"""The home of a project: its folders of rows, releases, ledger and reports, and its settings."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.system_errors import follow_links
from dp_pipeline.ledger.book import LEDGER_VARIABLE
from dp_pipeline.ledger.ledger import Ledger
from dp_pipeline.ledger.sqlite import MOVED

HOME_VARIABLE = "DP_PIPELINE_HOME"
HEAD_VARIABLE = "DP_PIPELINE_LEDGER_HEAD"
NOISE_VARIABLE = "DP_PIPELINE_NOISE"
ENGINE_VARIABLE = "DP_PIPELINE_ENGINE"
PUBLISHED_VARIABLE = "DP_PIPELINE_PUBLISHED"
SHELF = "published"
"""The folder below a home for published copies, where no other place is named."""


@dataclass(frozen=True)
class Home:
    """The folders of one project, below ``root``.

    database   address of the PostgreSQL server with the ledger's rows, and its password; None: a
               file below ``root``
    head       the file that names the ledger's newest row; None: below ``root``
    """

    root: Path
    database: str | None = field(default=None, repr=False)
    head: Path | None = None

    @property
    def raw(self) -> Path:
        """The private folder of snapshots and exact results, for the data custodian alone."""
        return self.root / "raw"

    @property
    def released(self) -> Path:
        """The folder of transcripts and bundles."""
        return self.root / "released"

    @property
    def internal(self) -> Path:
        """The folder of evaluations and comparisons that Dagster assets exchange."""
        return self.root / "internal"

    @property
    def reports(self) -> Path:
        """The folder of HTML reports."""
        return self.root / "reports"

    @property
    def ledger_folder(self) -> Path:
        """The folder of the ledger's keys and locks, and of its rows if there is no server."""
        return self.root / "ledger"

    @property
    def answer_counts(self) -> Path:
        """The folder with the number of answers of each unfinished release, next to the head.

        They show that ``released`` was replaced by an older copy."""
        head = follow_links(self.head or self.ledger_folder.with_name("ledger.head"))
        return head.with_name(f"{head.name}.answers")

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of rows, releases, evaluations, reports and ledger; only the owner enters."""
        return self.raw, self.released, self.internal, self.reports, self.ledger_folder

    @property
    def ledger(self) -> Ledger:
        """The privacy ledger of this project.

        DeclarationError for an invalid address, or for none if the ledger is on a server."""
        folder = self.ledger_folder
        if self.database is not None:
            from dp_pipeline.ledger.postgres import PostgresStore

            return Ledger(folder, head=self.head, store=PostgresStore(self.database, folder))
        if (folder / MOVED).exists():
            raise DeclarationError(
                f"The ledger of {folder} was moved to a server, but {LEDGER_VARIABLE} does not "
                f"name it: `export {LEDGER_VARIABLE}=postgresql://…`"
            )
        return Ledger(folder, head=self.head)


def find_home() -> Home:
    """Return the home in ``$DP_PIPELINE_HOME``, or in ``data/`` next to the nearest workspace.yaml.

    That is searched at and above the working folder; ``$DP_PIPELINE_LEDGER`` and
    ``$DP_PIPELINE_LEDGER_HEAD`` apply.

    Raises DeclarationError where there is none: a new ledger in an arbitrary working folder would
    be a new, unspent budget.
    """
    folder_text = os.environ.get(HOME_VARIABLE)
    if folder_text:
        return _home_at(follow_links(folder_text))
    workspace = find_workspace()
    if workspace is None:
        raise DeclarationError(
            f"The folder {Path.cwd()} is not in a project: change to a folder with "
            f"workspace.yaml, or `export {HOME_VARIABLE}=FOLDER`"
        )
    return _home_at(workspace.parent / "data")


def home_in(folder: Path) -> Home:
    """Return the home in a folder, with the ledger that the environment variables name.

    Raises DeclarationError for a relative path, and where ``$DP_PIPELINE_HOME`` names another
    folder: a second home would be a second, unspent budget of the same persons.
    """
    if not folder.is_absolute():
        raise DeclarationError(
            "The home of a project must be an absolute path, as processes work in different "
            f"folders, not {str(folder)!r}"
        )
    folder_text = os.environ.get(HOME_VARIABLE)
    if folder_text and follow_links(folder_text) != follow_links(folder):
        raise DeclarationError(
            f"The home of the project must be {follow_links(folder_text)}, which "
            f"{HOME_VARIABLE} names, not {follow_links(folder)}: unset the variable, or name "
            "one folder in both"
        )
    return _home_at(follow_links(folder))


def _home_at(root: Path) -> Home:
    head = os.environ.get(HEAD_VARIABLE)
    database = os.environ.get(LEDGER_VARIABLE) or None
    return Home(root, database, follow_links(head) if head else None)


def find_workspace() -> Path | None:
    """Return the nearest workspace.yaml in or above the working folder; None if there is none."""
    folder = Path.cwd()
    paths = (parent / "workspace.yaml" for parent in (folder, *folder.parents))
    return next((path for path in paths if path.is_file()), None)


def noise_name() -> str:
    """Return the name of the noise source in ``$DP_PIPELINE_NOISE``, by default ``opendp``."""
    return os.environ.get(NOISE_VARIABLE) or "opendp"


def engine_name() -> str:
    """Return the name in ``$DP_PIPELINE_ENGINE`` of the engine that counts rows; else ""."""
    return os.environ.get(ENGINE_VARIABLE, "")


def published_place(home: Home) -> str:
    """Return the folder or address of published copies.

    It is ``$DP_PIPELINE_PUBLISHED``, or else a folder in the home.
    """
    return os.environ.get(PUBLISHED_VARIABLE) or str(home.root / SHELF)
