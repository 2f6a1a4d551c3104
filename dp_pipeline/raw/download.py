"""Downloads: one file behind one URL, whole and as declared, or nothing.

The bytes are counted while they come and their hash is compared before anything else looks at
them. There are no proxies, no cookies and no passwords: what a machine's environment says of
those does not count. Plain http is for this machine alone.

Located: the files of a source, here now, downloaded if need be.
"""

from __future__ import annotations

import hashlib
import logging
import re
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from urllib.parse import urljoin, urlsplit

from urllib3 import BaseHTTPResponse, PoolManager
from urllib3.exceptions import HTTPError, NewConnectionError, SSLError, TimeoutError

from dp_pipeline.config.catalogue import dataset_files
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import SourceError
from dp_pipeline.config.source import DATA_FOLDER_VARIABLE, Source
from dp_pipeline.config.url import EXPECTED_URL, is_allowed_url, redact_url
from dp_pipeline.files import make_private
from dp_pipeline.raw.snapshot import write_private

IDLE_SECONDS = 30.0
"""The longest that a server may be silent."""
TOTAL_SECONDS = 3600.0
"""The longest that one file may take."""
REDIRECTS = 5
MEGABYTE = 10**6

# The library logs whole URLs, and a query may hold a secret.
logging.getLogger("urllib3").setLevel(logging.ERROR)

_BLOCK = 1 << 16
_HEADERS = {"Accept-Encoding": "identity", "User-Agent": "dp-pipeline"}


@dataclass(frozen=True)
class Download:
    """One file to be fetched.

    of           the data set, for messages
    sha256       the hash that the file must have; None: any, of a server that is trusted
    at_most_mb   the most that is read, in 10^6 bytes
    """

    of: str
    url: str
    sha256: str | None
    at_most_mb: int

    def to(self, path: Path) -> str:
        """Write the file, for its owner alone, and give its hash.

        Raises SourceError, and leaves what was at ``path``, when the server does not answer,
        sends the reader elsewhere, or sends a file that is too large, cut short or another one.
        """
        found = ""

        def write(file: BinaryIO) -> None:
            nonlocal found
            found = self._copy(file)

        write_private(path, write)
        return found

    def _copy(self, file: BinaryIO) -> str:
        until = time.monotonic() + TOTAL_SECONDS
        pool = PoolManager(headers=_HEADERS, retries=False, timeout=IDLE_SECONDS)
        with pool, self._response(pool) as response:
            digest = self._read(response, file, until)
        if self.sha256 not in (None, digest):
            raise self._refusal(f"the file of SHA-256 {self.sha256}", "another")
        return digest

    def _response(self, pool: PoolManager) -> BaseHTTPResponse:
        """The response that holds the file, wherever it lies."""
        url = self.url
        for _ in range(REDIRECTS + 1):
            try:
                response = pool.request("GET", url, redirect=False, preload_content=False)
            except HTTPError as error:
                raise self._refusal("a server that answers", _reason(error)) from None
            if response.status == 200:
                return response
            response.close()
            target = response.get_redirect_location()
            if not target:
                raise self._refusal("a file", f"status {response.status}")
            url = self._redirected(url, target)
        raise self._refusal(f"at most {REDIRECTS} redirections", "more")

    def _redirected(self, url: str, target: str) -> str:
        """Where an answer points to; SourceError unless it may be followed."""
        try:
            found = urljoin(url, target)
        except ValueError:
            found = ""
        if not is_allowed_url(found) or urlsplit(found).scheme != urlsplit(url).scheme:
            raise self._refusal(f"a redirection to {EXPECTED_URL}", "one to elsewhere")
        if self.sha256 is None and urlsplit(found).netloc != urlsplit(url).netloc:
            # Where the hash is known it does not matter who sends the bytes.
            raise self._refusal("the file itself, or its sha256", "a redirection to another host")
        return found

    def _read(self, response: BaseHTTPResponse, file: BinaryIO, until: float) -> str:
        """The hash of the body, once all of it is in ``file``."""
        has_length = response.chunked or response.length_remaining is not None
        if self.sha256 is None and not has_length:
            raise self._refusal("a length, or the file's sha256", "neither")
        digest, count = hashlib.sha256(), 0
        # One arrival at a time: a server that sends a byte now and then must not hold it for ever.
        while block := self._block(response):
            count += len(block)
            if count > self.at_most_mb * MEGABYTE:
                raise self._refusal(f"at most {self.at_most_mb} MB", "more")
            if time.monotonic() > until:
                raise self._refusal(f"a file within {TOTAL_SECONDS:.0f} seconds", "a part of it")
            digest.update(block)
            file.write(block)
        return digest.hexdigest()

    def _block(self, response: BaseHTTPResponse) -> bytes:
        """What arrives next; none at the end, which is where the stated length is."""
        try:
            return response.read1(_BLOCK, decode_content=False)
        except TimeoutError:
            raise self._refusal("a whole file", "silence behind a part of it") from None
        except HTTPError:
            raise self._refusal("a whole file", "one that was cut short") from None

    def _refusal(self, expected: str, got: str) -> SourceError:
        return SourceError(f"{self.of}: {redact_url(self.url)}: expected {expected}, got {got}")


def _reason(error: HTTPError) -> str:
    # A refused connection is a kind of timeout to the library.
    if isinstance(error, TimeoutError) and not isinstance(error, NewConnectionError):
        return "silence"
    is_certificate = isinstance(error, SSLError) and isinstance(
        error.args[0], ssl.SSLCertVerificationError
    )
    return "a certificate that is not trusted" if is_certificate else "none"


_DOWNLOADED = re.compile(r"[0-9a-f]{32}(\.[a-z0-9]+)?")
"""The names that ``_place`` gives."""


@dataclass(frozen=True)
class Located:
    """What is to be read.

    source   the declared source, or the download in its place
    files    where its locations lie; None where they are no downloads
    sha256   identity → hash of every file that was downloaded
    """

    source: Source
    files: tuple[Path, ...] | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def located(spec: DatasetSpec, folder: Path, known: Mapping[str, str]) -> Iterator[Located]:
    """The source as it can be read now: its own files where all of them are there, else what is
    declared to be downloaded.

    folder   for downloads. Those of benchmarks stay there, so that several data sets and samples
             read one; those of sensitive data go when the block ends, because rows lie in
             snapshots only.
    known    identity → hash of files that were downloaded before: another one is refused, unless
             the declaration names its hash

    Raises SourceError when a download fails.
    """
    source = _chosen(spec.source)
    if not source.is_remote:
        yield Located(source)
        return
    make_private(folder)
    files: list[Path] = []
    found = {}
    try:
        with _said_what_else(spec):
            for url in source.locations:
                files.append(_place(folder, url))
                found[redact_url(url)] = _fetched(spec, source, url, files[-1], known)
        yield Located(source, tuple(files), found)
    finally:
        for path in files if spec.is_release else ():
            path.unlink(missing_ok=True)


@contextmanager
def _said_what_else(spec: DatasetSpec) -> Iterator[None]:
    """A download that fails says where the files may lie, and which data set needs none."""
    try:
        yield
    except SourceError as error:
        also, like, own = [], f"{spec.name}_like", spec.source.locations
        if not spec.source.is_resolved:
            names = ", ".join(Path(one).name for one in own)
            also.append(f"`export {DATA_FOLDER_VARIABLE}=FOLDER` names a folder with {names}")
        elif spec.source.download is not None:
            also.append(f"it is read from {', '.join(own)} where that is there")
        if like in dataset_files():
            also.append(f"{like} is generated, and needs neither")
        raise SourceError("; ".join([str(error), *also])) from None


def _chosen(source: Source) -> Source:
    own, *download = source.alternatives
    return own if all(map(_is_there, own.locations)) or not download else download[0]


def _is_there(location: str) -> bool:
    try:
        return Path(location).exists()
    except OSError:
        # It is there and may not be seen: reading it says so.
        return True


def _place(folder: Path, url: str) -> Path:
    """A name of its own for each URL; its ending says whether the file is compressed."""
    name = hashlib.sha256(url.encode()).hexdigest()[:32]
    ending = PurePosixPath(urlsplit(url).path).suffix.lower()
    return folder / f"{name}{ending if ending[1:].isalnum() else ''}"


def forget_downloads(folder: Path) -> None:
    """Delete the downloads that killed runs left in the snapshots of one sensitive data set; the
    caller holds its lock.
    """
    for path in folder.glob("*/*"):
        if _DOWNLOADED.fullmatch(path.name) and path.is_file():
            path.unlink()


def _fetched(
    spec: DatasetSpec, source: Source, url: str, path: Path, known: Mapping[str, str]
) -> str:
    """Download the file unless it is there; its hash."""
    declared, before = source.sha256.get(url), known.get(redact_url(url))
    expected = declared or before
    if path.is_file() and not spec.is_release:
        found = _sha256(path)
        if expected in (None, found):
            return found
    found = Download(spec.name, url, declared, source.at_most_mb).to(path)
    if declared is None and before not in (None, found):
        path.unlink()
        raise SourceError(
            f"{spec.name}: {redact_url(url)}: expected the file of SHA-256 {before}, as in an "
            f"earlier snapshot, got {found}; declare sha256 to say which"
        )
    return found


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
