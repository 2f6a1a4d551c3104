"""What counts as text in a ledger row."""

from __future__ import annotations

from dp_pipeline.schema.errors import DeclarationError


def require_line(text: str, *, of: str) -> None:
    """Refuse anything but one line of printable text: these words stand in messages.

    Raises DeclarationError.
    """
    if not isinstance(text, str) or not text.strip() or text != text.strip():
        raise DeclarationError(f"{of}: expected text without outer spaces, got {text!r}")
    if not text.isprintable():
        raise DeclarationError(f"{of}: expected one line of printable text, got {text!r}")


def require_text(text: str, *, of: str) -> None:
    """Refuse what a database cannot store as text: other types, NUL, lone surrogates.

    Raises DeclarationError.
    """
    if not isinstance(text, str) or not text:
        raise DeclarationError(f"{of}: expected text, got {text!r}")
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise DeclarationError(f"{of}: expected text that UTF-8 can store, got {text!r}")


def as_line(text: str) -> str:
    """Any text as one printable line; for reasons, which must never be refused."""
    line = " ".join(str(text).split())
    return "".join(letter if letter.isprintable() else "?" for letter in line) or "no reason given"
