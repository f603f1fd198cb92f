"""`make docs`: write every generated page."""

from __future__ import annotations

from docs.generate import alarms, ledger, probes, reference

if __name__ == "__main__":
    reference.write()
    alarms.PAGE.write_text(alarms.page(), encoding="utf-8")
    ledger.write()
    probes.PAGE.write_text(probes.page(), encoding="utf-8")
