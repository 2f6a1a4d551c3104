"""Downloads of the files of a source, each whole and as declared, or not at all.

The bytes are counted while they arrive, and their hash is compared before they are read. Proxies,
cookies and passwords of the environment are not used. Plain http is for this machine alone.
"""

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
from urllib3.exceptions import (
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    SSLError,
    TimeoutError,
)

from dp_pipeline.config.catalogue import dataset_files
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import SourceError
from dp_pipeline.config.source import DATA_FOLDER_VARIABLE, Source
from dp_pipeline.config.url import EXPECTED_URL, is_allowed_url, redact_url
from dp_pipeline.files import make_private, write_private

IDLE_SECONDS = 30.0  # Longest time without a byte from a server
TOTAL_SECONDS = 3600.0  # Longest time for one file
MAX_REDIRECTS = 5
MEGABYTE = 10**6

# The library logs whole URLs, and a query may hold a secret.
logging.getLogger("urllib3").setLevel(logging.ERROR)

_BLOCK = 1 << 16
_HEADERS = {"Accept-Encoding": "identity", "User-Agent": "dp-pipeline"}


@dataclass(frozen=True)
class Download:
    """A file to download, with its size limit and expected hash.

    dataset         name of its data set, for messages
    sha256          hash that the file must have; None: any, from a trusted server
    max_megabytes   the most that is read, in 10^6 bytes
    """

    dataset: str
    url: str
    sha256: str | None
    max_megabytes: int

    def to(self, path: Path) -> str:
        """Download the file to ``path``, readable by its owner only; return its SHA-256.

        SourceError, without a change at ``path``, if the server does not answer or sends no file,
        or one that is too large, late, incomplete or of another hash. It is also raised for a
        circle of redirections, too many, or one to another scheme. Without a declared hash it is
        raised for a redirection to another host, and for a file of unknown length.
        """
        digests: list[str] = []
        write_private(path, lambda file: digests.append(self._copy(file)))
        return digests[0]

    def _copy(self, file: BinaryIO) -> str:
        deadline = time.monotonic() + TOTAL_SECONDS
        pool = PoolManager(headers=_HEADERS, retries=False, timeout=IDLE_SECONDS)
        with pool, self._request(pool) as response:
            digest = self._copy_body(response, file, deadline)
        if self.sha256 not in (None, digest):
            raise self._refusal(
                f"the file has SHA-256 {digest}, but {self.sha256} is "
                "declared: correct `url` or `sha256`"
            )
        return digest

    def _request(self, pool: PoolManager) -> BaseHTTPResponse:
        url, visited = self.url, set[str]()
        for _ in range(MAX_REDIRECTS + 1):
            if url in visited:
                raise self._refusal(
                    "the server redirects in a circle: declare another `url`, or download the file "
                    "by hand, and declare its `path`"
                )
            visited.add(url)
            try:
                response = pool.request("GET", url, redirect=False, preload_content=False)
            except HTTPError as error:
                raise self._refusal(_reason(error)) from None
            if response.status == 200:
                return response
            response.close()
            location = response.get_redirect_location()
            if not location:
                may_pass = response.status == 429 or response.status >= 500
                raise self._refusal(
                    f"the server sends status {response.status}, and no file: "
                    f"{'run again later' if may_pass else 'correct `url`'}"
                )
            url = self._redirected(url, location)
        raise self._refusal(
            f"the server redirects more than {MAX_REDIRECTS} times: declare "
            "the last address as `url`"
        )

    def _redirected(self, url: str, location: str) -> str:
        """Return the target of a redirection; SourceError if it may not be followed."""
        try:
            target = urljoin(url, location)
        except ValueError:
            target = ""
        if not is_allowed_url(target):
            raise self._refusal(
                f"a redirection must go to {EXPECTED_URL}, but it does not: declare another `url`"
            )
        schemes = urlsplit(url).scheme, urlsplit(target).scheme
        if schemes[0] != schemes[1]:
            raise self._refusal(
                f"the server redirects from {schemes[0]} to {schemes[1]}, which is not followed: "
                "declare the address that it leads to as `url`"
            )
        if self.sha256 is None and urlsplit(target).netloc != urlsplit(url).netloc:
            # With a declared hash it does not matter who sends the bytes.
            raise self._refusal(
                "the server redirects to another host, so `sha256` must be declared: add it"
            )
        return target

    def _copy_body(self, response: BaseHTTPResponse, file: BinaryIO, deadline: float) -> str:
        """Copy the body of a response to ``file``; return its SHA-256, as hex.

        SourceError if it is too large, is not complete at ``deadline``, a ``time.monotonic()``, or
        has neither a declared hash nor a length.
        """
        has_length = response.chunked or response.length_remaining is not None
        if self.sha256 is None and not has_length:
            raise self._refusal(
                "the server does not send the length of the file, so "
                "`sha256` must be declared: add it"
            )
        digest, count = hashlib.sha256(), 0
        # Block by block: a server that sends a byte now and then must not delay it for ever.
        while block := self._next_block(response):
            count += len(block)
            if count > self.max_megabytes * MEGABYTE:
                raise self._refusal(
                    f"the file has more than {self.max_megabytes} MB: raise at_most_mb"
                )
            if time.monotonic() > deadline:
                raise self._refusal(
                    f"the file takes more than {TOTAL_SECONDS:.0f} seconds: download it by hand, "
                    "and declare its `path`"
                )
            digest.update(block)
            file.write(block)
        return digest.hexdigest()

    def _next_block(self, response: BaseHTTPResponse) -> bytes:
        try:
            return response.read1(_BLOCK, decode_content=False)
        except TimeoutError:
            raise self._refusal(
                f"the server sends nothing for {IDLE_SECONDS:g} seconds: run again"
            ) from None
        except HTTPError:
            raise self._refusal("the file is incomplete: run again") from None

    def _refusal(self, fault: str) -> SourceError:
        return SourceError(f"{self.dataset}: {redact_url(self.url)}: {fault}")


def _reason(error: HTTPError) -> str:
    # The library's error of a refused connection is a TimeoutError too.
    if isinstance(error, TimeoutError) and not isinstance(error, NewConnectionError):
        return f"the server does not answer for {IDLE_SECONDS:g} seconds: run again"
    if isinstance(error, SSLError) and isinstance(error.args[0], ssl.SSLCertVerificationError):
        return "the server has no trusted certificate: declare another `url`"
    if isinstance(error, SSLError):
        return "the server does not answer in TLS, as https needs: correct `url`"
    if isinstance(error, NameResolutionError):
        return "the name of the server is not found: correct `url`, or connect to its network"
    return "the server does not answer: correct `url`, or run again"


_DOWNLOAD_NAME = re.compile(r"[0-9a-f]{32}(\.[a-z0-9]+)?")
"""Form of the names of ``_download_path``."""


@dataclass(frozen=True)
class LocatedSource:
    """The source to read, with the paths of its downloaded files.

    source   the declared source, or the declared download in its place
    files    downloaded files of its locations; None without downloads
    sha256   URL without secrets → SHA-256 of every downloaded file
    """

    source: Source
    files: tuple[Path, ...] | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def located_source(
    spec: DatasetSpec, folder: Path, earlier: Mapping[str, str]
) -> Iterator[LocatedSource]:
    """Yield the source to read inside the block: its local files if all exist, or its download.

    folder    folder for downloads. Those of benchmarks stay there, and are read instead of the URL
              unless another hash is expected. Those of sensitive data are deleted
              after the block, because rows are in snapshots only.
    earlier   URL without secrets → SHA-256 of its earlier download; a file of another hash is
              refused unless that hash is declared

    SourceError if a download fails.
    """
    own, *download = spec.source.alternatives
    source = own if not download or all(map(_exists, own.locations)) else download[0]
    if not source.is_remote:
        yield LocatedSource(source)
        return
    make_private(folder)
    files: list[Path] = []
    hashes = {}
    try:
        for url in source.locations:
            name = hashlib.sha256(url.encode()).hexdigest()[:32]
            ending = PurePosixPath(urlsplit(url).path).suffix.lower()
            files.append(folder / f"{name}{ending if ending[1:].isalnum() else ''}")
            hashes[redact_url(url)] = _fetch(spec, source, url, files[-1], earlier)
    except SourceError as error:
        raise SourceError("; ".join([str(error), *_alternatives(spec)])) from None
    else:
        yield LocatedSource(source, tuple(files), hashes)
    finally:
        for path in files if spec.is_release else ():
            path.unlink(missing_ok=True)


def _alternatives(spec: DatasetSpec) -> list[str]:
    alternatives, locations = [], spec.source.locations
    if not spec.source.is_resolved:
        names = ", ".join(Path(location).name for location in locations)
        alternatives.append(f"`export {DATA_FOLDER_VARIABLE}=FOLDER` names a folder with {names}")
    elif spec.source.download is not None:
        alternatives.append(f"it is read from {', '.join(locations)} where that is there")
    generated = f"{spec.name}_like"
    if generated in dataset_files():
        alternatives.append(f"{generated} is generated, and needs neither")
    return alternatives


def _exists(location: str) -> bool:
    try:
        return Path(location).exists()
    except OSError:
        # It may exist without permission: reading it gives the reason.
        return True


def delete_downloads(folder: Path) -> None:
    """Delete the downloads that killed runs left in the locked folder of a sensitive data set."""
    for path in folder.glob("*/*"):
        if _DOWNLOAD_NAME.fullmatch(path.name) and path.is_file():
            path.unlink()


def _fetch(
    spec: DatasetSpec, source: Source, url: str, path: Path, earlier: Mapping[str, str]
) -> str:
    declared, before = source.sha256.get(url), earlier.get(redact_url(url))
    if path.is_file() and not spec.is_release:
        with path.open("rb") as file:
            stored = hashlib.file_digest(file, "sha256").hexdigest()
        if (declared or before) in (None, stored):
            return stored
    sha256 = Download(spec.name, url, declared, source.at_most_mb).to(path)
    if declared is None and before not in (None, sha256):
        path.unlink()
        raise SourceError(
            f"{spec.name}: {redact_url(url)}: the file has SHA-256 {sha256}, but {before} in an "
            "earlier snapshot: declare the right one as sha256 (of `urls` a list with one for each)"
        )
    return sha256
