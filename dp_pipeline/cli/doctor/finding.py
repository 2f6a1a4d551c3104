"""Finding: one line of the doctor, and how one object's error stays that object's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from dp_pipeline.schema.errors import PipelineError

State = Literal["ok", "note", "fault"]


@dataclass(frozen=True)
class Finding:
    """What was found about one object.

    state   ``ok``; ``note``: good to know; ``fault``: somebody has to do something
    remedy  what to do; empty where nothing is to be done
    """

    topic: str
    state: State
    text: str
    remedy: str = ""

    def texts(self) -> dict[str, str]:
        """For machines."""
        return dict(vars(self))


Examine = Callable[[], Iterator[Finding]]


def examined(topic: str, examine: Examine) -> list[Finding]:
    """What an examination finds; what it failed at is found as well, and ends nothing else."""
    found: list[Finding] = []
    try:
        found += examine()
    except PipelineError as error:
        found.append(Finding(topic, "fault", " ".join(str(error).split())))
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        found.append(Finding(topic, "fault", f"cannot read{where}: {error.strerror}"))
    return found


@contextmanager
def collected(found: list[Finding], topic: str, of: str) -> Iterator[None]:
    """An error in the block becomes a finding about one object."""
    try:
        yield
    except PipelineError as error:
        found.append(Finding(topic, "fault", " ".join(str(error).split())))
    except (OSError, ValueError, LookupError, TypeError) as error:
        # Of what is stored only the kind of the error is said: its words may quote the content.
        reason = getattr(error, "strerror", None) or type(error).__name__
        found.append(Finding(topic, "fault", f"{of}: cannot be read: {reason}"))
