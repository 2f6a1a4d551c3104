"""Who types a command, as the ledger notes it."""

from __future__ import annotations

import getpass
import os


def operator_name() -> str:
    """The user's name; where a user has none, as in some containers, the number."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return f"user {os.getuid()}"
