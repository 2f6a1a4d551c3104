"""PNG with a palette: charts have few colours, and one byte a pixel makes small files."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]

SIGNATURE = b"\x89PNG\r\n\x1a\n"

_FINER_TO_COARSER = (1, 2, 4, 8, 12, 16, 24, 32, 48)


def is_tall(png: bytes) -> bool:
    """Whether a PNG is higher than wide.

    >>> is_tall(encode_png(np.zeros((3, 2, 3), dtype=np.uint8)))
    True
    """
    width, height = struct.unpack(">II", png[16:24])
    return bool(height > width)


def encode_png(pixels: Pixels) -> bytes:
    """PNG of opaque ``pixels`` (height, width, 3), with at most 256 colours.

    Close colours become the most frequent one among them, so paper stays white and a
    line keeps its colour; only the blends at their edges move.
    """
    palette, indices = _palette(pixels)
    height, width = indices.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    scanlines = np.zeros((height, width + 1), dtype=np.uint8)  # each begins with "no filter"
    scanlines[:, 1:] = indices
    chunks = (
        (b"IHDR", header),
        (b"PLTE", palette.tobytes()),
        (b"IDAT", zlib.compress(scanlines.tobytes(), 9)),
        (b"IEND", b""),
    )
    return SIGNATURE + b"".join(_chunk(name, content) for name, content in chunks)


def _palette(pixels: Pixels) -> tuple[Pixels, Pixels]:
    """At most 256 colours (m, 3), and for every pixel the index of its own."""
    packed = pixels.reshape(-1, 3).astype(np.int64) @ (1 << 16, 1 << 8, 1)
    codes, place, counts = np.unique(packed, return_inverse=True, return_counts=True)
    colours = np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=1)
    for width in _FINER_TO_COARSER:
        near = (colours // width) @ (1 << 16, 1 << 8, 1)
        groups, group_of = np.unique(near, return_inverse=True)
        if len(groups) <= 256:
            break
    palette = np.zeros((len(groups), 3), dtype=np.uint8)
    rarest_first: NDArray[Any] = np.argsort(counts, kind="stable")
    palette[group_of[rarest_first]] = colours[rarest_first]  # the most frequent is written last
    return palette, group_of[place].reshape(pixels.shape[:2]).astype(np.uint8)


def _chunk(name: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)
