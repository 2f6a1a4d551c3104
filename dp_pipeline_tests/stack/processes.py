"""Servers in process groups of their own: started, killed, and what they leave behind found."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")
POLL_SECONDS = 0.5
_PORTS = count(10_000 + os.getpid() * 101 % 20_000)


class NotInTime(AssertionError):
    """Something that was waited for did not come."""


def free_port() -> int:
    """A loopback port that nobody listens at, and that the system gives to no connection."""
    while True:
        port = next(_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(ask: Callable[[], Found], *, what: str, seconds: float = 240) -> Found:
    last: object = None
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            last = ask()
        except OSError as error:
            last = error
        else:
            if last:
                return last
        time.sleep(POLL_SECONDS)
    raise NotInTime(f"{what}: not in {seconds} s; last seen {last!r}")


@dataclass
class Server:
    """One server of a stack, as a shell would start it; what it says goes to ``log``.

    Its children stay in its process group, also those that outlive it.

    started   when the newest start was, in seconds since 1970
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    log: Path
    started: float = field(default=0.0, init=False)
    _child: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _groups: list[int] = field(default_factory=list, init=False)

    @property
    def pid(self) -> int:
        assert self._child is not None, f"{self.name} was never started"
        return self._child.pid

    @property
    def lives(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def start(self) -> None:
        self.started = time.time()
        with self.log.open("ab") as words:
            self._child = subprocess.Popen(
                list(self.command),
                cwd=self.folder,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._groups.append(self._child.pid)

    def kill(self) -> None:
        """SIGKILL of this process alone: what it had started goes on."""
        self._child.kill()
        self._child.wait()

    def members(self) -> tuple[int, ...]:
        """Every process that this server started, in any of its starts, and that still runs."""
        return tuple(pid for pid in _processes() if _group(pid) in self._groups)

    def end(self) -> None:
        """SIGKILL of all of them, of every start."""
        for group in self._groups:
            # An empty group may be gone, and its number another's: only where members are.
            if any(_group(pid) == group for pid in _processes()):
                os.killpg(group, signal.SIGKILL)
        if self._child is not None:
            self._child.wait()
        wait_for(lambda: not self.members(), what=f"the end of {self.name}", seconds=20)

    def last_words(self, lines: int = 20) -> str:
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])


def command_line(pid: int) -> str:
    """The words that a process was started with; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _group(pid: int) -> int | None:
    """The process group of a process that runs; None for a zombie or where there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return None
    # The name, in brackets, may hold anything.
    state, _, group, *_ = text.rpartition(")")[2].split()
    return None if state == "Z" else int(group)
