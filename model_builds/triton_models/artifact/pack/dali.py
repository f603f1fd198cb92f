"""Removal of source locations from a serialized DALI pipeline.

Every operator contains the path, line, function and source text of its stack frames, for error messages. They
reveal paths of the build machine, and make the bytes depend on it. The format is
dali/pipeline/proto/dali.proto of NVIDIA/DALI (read 2026-11-21, DALI 2.4). Fields are removed without a
schema, so that all other bytes stay unchanged in any version.
"""

from __future__ import annotations

from triton_models.base.protobuf import Field, Message, encoded

SUFFIX = ".dali"

_OPERATORS = 5  # PipelineDef.op
_ARGUMENTS = 4  # OpDef.args
_NAME = 1  # Argument.name
_ORIGIN = b"_origin_stack_"


def without_origin(pipeline: bytes) -> bytes:
    """Return the pipeline without the origins of its operators; return other content unchanged."""
    try:
        return b"".join(map(_rewritten, Message.of(pipeline).fields()))
    except ValueError:
        return pipeline


def _rewritten(field: Field) -> bytes:
    if field.number == _OPERATORS and field.message is not None:
        arguments = list(field.message.fields())
        kept = [bytes(each.raw) for each in arguments if not _is_origin(each)]
        if len(kept) < len(arguments):
            return encoded(field.number, b"".join(kept))
    return bytes(field.raw)


def _is_origin(field: Field) -> bool:
    if field.number != _ARGUMENTS or field.message is None:
        return False
    return any(bytes(each).startswith(_ORIGIN) for each in field.message.parts(_NAME))
