"""How the FIL backend computes scores on a CPU: Treelite, with rows and scores in FP32.

`predict()` of Treelite's Python package converts the rows to the type of the forest instead. Both callers
have NumPy and Treelite, and pass the module `treelite.gtil.gtil`.
"""

from __future__ import annotations

import ctypes
from typing import Any


def scores_in_fp32(gtil: Any, forest: Any, rows: Any, *, classes: int, threads: int = 1) -> Any:
    """Return the scores of rows of FP32, of the shape [rows, classes]."""
    import numpy as np

    rows, scores = np.ascontiguousarray(rows), np.zeros((len(rows), classes), np.float32)
    floats = ctypes.POINTER(ctypes.c_float)
    config = gtil.GTILConfig(predict_type="default", nthread=threads)
    gtil._check_call(
        gtil._LIB.TreeliteGTILPredict(
            forest.handle,
            rows.ctypes.data_as(floats),
            b"float32",
            ctypes.c_uint64(len(rows)),
            scores.ctypes.data_as(floats),
            config.handle,
        )
    )
    return scores
