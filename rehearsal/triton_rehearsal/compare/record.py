"""Records of what was measured on a GPU, from which the documentation's tables are made."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

from triton_models.base.errors import FleetError
from triton_rehearsal.compare.measurement import Comparison


def write_record(path: Path, measured: Comparison) -> None:
    """Write what the networks of each model cost, and the milliseconds of its form.

    Models without a floor are left out.

    Raises:
        FleetError: The file cannot be written.
    """
    floors = [(each, each.floor) for each in measured.models if each.floor is not None]
    document = {
        "gpu": next((floor.gpu for _, floor in floors), None),
        "card": measured.where,
        "driver": measured.driver,
        "date": datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat(),
        "release": measured.release,
        "with": "Triton, one request after the other, its inputs and outputs over HTTP",
        "networks": [
            {
                "network": model.name,
                **floor.cost.as_dict(),
                "median_ms": {f"{' + '.join(model.backends)} {floor.precision}": model.as_dict()["p50_ms"]},
            }
            for model, floor in floors
        ],
    }
    try:
        path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise FleetError.of(
            what=f"the record cannot be written: {error.strerror}",
            where=f"--record {path}",
            fix="name a file in a folder that exists and is writable",
            rule="compare-record",
        ) from error
