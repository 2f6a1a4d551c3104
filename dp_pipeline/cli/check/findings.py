"""A finding of `dp-pipeline check`, and guards that turn an error into a finding."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

from dp_pipeline.config.errors import PipelineError


@dataclass(frozen=True)
class Finding:
    """The result of checking one object of a home.

    state   ``ok``; ``note``: good to know; ``fault``: somebody has to do something
    remedy  instruction for a fault; empty where nothing is to be done
    topic   name of the check, which ``run_check`` fills in
    """

    state: Literal["ok", "note", "fault"]
    text: str
    remedy: str = ""
    topic: str = ""


@contextmanager
def collect_error(findings: list[Finding], name: str) -> Iterator[None]:
    """Suppress an error of the block, and append a fault to ``findings`` instead.

    name   the object that cannot be read, for errors other than a PipelineError, which names it

    Those are OSError, ValueError, LookupError and TypeError; any other error is raised.
    """
    try:
        yield
    except PipelineError as error:
        findings.append(Finding("fault", " ".join(str(error).split())))
    except (OSError, ValueError, LookupError, TypeError) as error:
        # Only the kind of error is shown: its words may quote the content that is stored.
        reason = getattr(error, "strerror", None) or type(error).__name__
        findings.append(Finding("fault", f"{name} cannot be read: {reason}"))


def run_check(topic: str, check: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings of a check with its topic.

    A PipelineError or OSError ends the check, and its message is the last finding, a fault.
    """
    try:
        for finding in check:
            yield replace(finding, topic=topic)
    except PipelineError as error:
        yield Finding("fault", " ".join(str(error).split()), topic=topic)
    except OSError as error:
        path = f" {error.filename}" if error.filename else ""
        text = f"a file{path} cannot be read: {error.strerror}"
        yield Finding("fault", text, topic=topic)
