"""Writes every generated page: `python -m docs.generate`."""

from __future__ import annotations

from docs.generate import (
    alarms,
    command_line,
    configuration,
    declarations,
    embedded_aws,
    errors,
    ledger,
    probes,
    reference,
)

if __name__ == "__main__":
    reference.write()
    ledger.write()
    for each in (alarms, command_line, configuration, declarations, embedded_aws, errors, probes):
        each.PAGE.write_text(each.page(), encoding="utf-8")
