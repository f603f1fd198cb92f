"""Records of what was measured on a GPU, from which the documentation's table is made."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

from triton_rehearsal.compare.measurement import Comparison, Measurement


def write_record(path: Path, measured: Comparison) -> None:
    """Write the models that have a floor, with what their networks cost, and milliseconds by form."""
    models = [each for each in measured.models if each.floor is not None]
    gpus = sorted({each.floor.gpu for each in models if each.floor})
    document = {
        "gpu": gpus[0] if gpus else None,
        "card": measured.where,
        "driver": measured.driver,
        "date": datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat(),
        "release": measured.release,
        "with": "Triton, one request after the other, its inputs and outputs over HTTP",
        "networks": [_network(each) for each in models],
    }
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _network(model: Measurement) -> dict[str, Any]:
    floor = model.floor
    if floor is None:
        msg = "only models with a floor are recorded"
        raise AssertionError(msg)
    counts = ("operations", "weights", "between", "ends")
    return {
        "network": model.name,
        "batch": floor.networks[0].batch,
        **{name: sum(getattr(each, name) for each in floor.networks) for name in counts},
        "median_ms": {f"{' + '.join(model.backends)} {floor.precision}": model.as_dict()["p50_ms"]},
    }
