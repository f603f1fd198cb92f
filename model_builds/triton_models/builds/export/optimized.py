"""onnxscript's optimizations, equal on every machine, with small constants kept: it reads them as zero."""

from __future__ import annotations

from typing import Any


def optimized(model: Any, **options: Any) -> Any:
    """Return a network of onnx with its constants folded, and without unused and superfluous nodes."""
    from onnxscript import optimizer

    keep_constants()
    return optimizer.optimize(model, **options)


def keep_constants() -> None:
    """Let onnxscript's rewrites keep constants close to 0 or 1, such as the epsilon of x / (y + 1e-8).

    Their patterns take up to 1e-8 for 0, and up to 1.00001 for 1, and remove the operator: the tolerances of
    rewriter/_pattern_ir.py (onnxscript 0.7.2, read 2026-11-28).
    """
    from onnxscript.rewriter import _pattern_ir

    # Properties, because the patterns exist already, with tolerances of their own.
    relative = property(lambda constant: 0.0 if constant.value in (0, 1) else 1e-5, lambda *_: None)
    exact = property(lambda _: 0.0, lambda *_: None)
    _pattern_ir.Constant._rel_tol = relative  # type: ignore[assignment]
    _pattern_ir.Constant._abs_tol = exact  # type: ignore[assignment]
