"""The choice of files to compress: those that shorten a cold start, estimated from samples.

An instance downloads an artifact, then unpacks it. Deflate shortens the download but lengthens the unpacking.
Trained weights lose: they shrink by 7 to 20 %, and inflating them takes twice as long as copying them. Files
with repeated sequences gain: text, programs, indices, pruned weights. The samples are searched for those
without a compression library, so the choice does not depend on its version.

Measured with gzip 1.12, 2026-11-21: the download speed below which deflate pays, and in brackets the share of
repeated sequences. Weights in float32, float16 and int8: 24 to 32 MB/s (0.00); in bfloat16: 54 (0.00); with
half of them pruned, in float16: 106 (0.33), in float32: 199 (0.44). Libraries: 314 (0.50); JSON: 277 (0.61);
Python: 882 (0.75). S3 gives one request 85 to 90 MB/s (AWS, "Performance design patterns for Amazon S3").
"""

from __future__ import annotations

from collections.abc import Mapping

from triton_models.artifact.pack.content import Content

# The share of repeated sequences from which on a file is compressed.
_WORTH = 0.3

# Compression makes an artifact's bytes depend on zlib's version, so it must save more than this, which
# downloads in eleven milliseconds.
_WORTH_BYTES = 1 << 20

_SAMPLES = 4
_SAMPLE_BYTES = 16 << 10
_SEQUENCE_BYTES = 4


def worth_compressing(contents: Mapping[str, Content]) -> frozenset[str]:
    """Return the names of the files to compress; none unless that saves more than a megabyte."""
    shares = {name: repeated(content) for name, content in contents.items()}
    chosen = {name for name, share in shares.items() if share >= _WORTH}
    saved = sum(shares[name] * contents[name].size for name in chosen)
    return frozenset(chosen) if saved >= _WORTH_BYTES else frozenset()


def repeated(content: Content) -> float:
    """Estimate the share of four-byte sequences, from 0 to 1, that occurred shortly before."""
    size = min(content.size, _SAMPLE_BYTES) // _SEQUENCE_BYTES * _SEQUENCE_BYTES
    if size < _SAMPLE_BYTES:
        return _share(content, offsets=[0], size=size)
    last = content.size - size
    return _share(content, offsets=[last * i // (_SAMPLES - 1) for i in range(_SAMPLES)], size=size)


def _share(content: Content, *, offsets: list[int], size: int) -> float:
    count = size - _SEQUENCE_BYTES  # omit one of each alignment, so that the four have equal lengths
    if count <= 0:
        return 0.0
    different = 0
    for offset in offsets:
        sample = memoryview(content.read(size, offset=offset))
        sequences: set[int] = set()
        for shift in range(_SEQUENCE_BYTES):
            sequences.update(sample[shift : shift + count].cast("I"))
        different += len(sequences)
    return 1 - different / (count * len(offsets))
