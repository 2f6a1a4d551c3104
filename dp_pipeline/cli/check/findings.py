"""A finding of `dp-pipeline check`, and guards that turn an error into a finding."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from dp_pipeline.config.errors import PipelineError


@dataclass(frozen=True)
class Finding:
    """The result of checking one object of a home.

    state   ``ok``; ``note``: good to know; ``fault``: somebody has to do something
    remedy  instruction for a fault; empty where nothing is to be done
    """

    topic: str
    state: Literal["ok", "note", "fault"]
    text: str
    remedy: str = ""


@contextmanager
def collect_error(findings: list[Finding], topic: str, name: str) -> Iterator[None]:
    """Turn an error of the block into a finding about the object ``name``."""
    try:
        yield
    except PipelineError as error:
        findings.append(Finding(topic, "fault", " ".join(str(error).split())))
    except (OSError, ValueError, LookupError, TypeError) as error:
        # Only the kind of error is shown: its words may quote the content that is stored.
        reason = getattr(error, "strerror", None) or type(error).__name__
        findings.append(Finding(topic, "fault", f"{name} cannot be read: {reason}"))


def run_check(topic: str, check: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings of a check, with an error that ends it as the last finding."""
    try:
        yield from check
    except PipelineError as error:
        yield Finding(topic, "fault", " ".join(str(error).split()))
    except OSError as error:
        path = f" {error.filename}" if error.filename else ""
        yield Finding(topic, "fault", f"a file{path} cannot be read: {error.strerror}")
