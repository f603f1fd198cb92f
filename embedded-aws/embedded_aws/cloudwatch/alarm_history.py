"""The history of alarms. It outlives them, and keeps as many entries as AWS keeps days: the newest."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from embedded_aws.cloudwatch.alarms import Alarm

_MOST = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry.

    Attributes:
        alarm: The alarm's name.
        kind: MetricAlarm or CompositeAlarm.
        item: StateUpdate, Action or ConfigurationUpdate.
        at: Its time, in seconds since 1970.
        summary: Its summary.
        data: Its data, as JSON.
    """

    alarm: str
    kind: str
    item: str
    at: float
    summary: str
    data: str

    def shown(self) -> dict[str, Any]:
        """Return the entry as DescribeAlarmHistory shows it."""
        return {
            "AlarmName": self.alarm,
            "AlarmType": self.kind,
            "Timestamp": datetime.fromtimestamp(self.at, tz=timezone.utc),
            "HistoryItemType": self.item,
            "HistorySummary": self.summary,
            "HistoryData": self.data,
        }


class History:
    """The history of the alarms of an account in a region. Threads may share it."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque(maxlen=_MOST)
        self._lock = threading.Lock()

    def add(self, alarm: Alarm, item: str, summary: str, data: Mapping[str, Any], *, at: float) -> None:
        """Add an entry to the history of an alarm."""
        entry = Entry(
            alarm=alarm.name,
            kind=alarm.kind,
            item=item,
            at=at,
            summary=summary,
            data=json.dumps(data, default=str),
        )
        with self._lock:
            self._entries.append(entry)

    def entries(self) -> list[Entry]:
        """Return all entries, the oldest first."""
        with self._lock:
            return sorted(self._entries, key=lambda entry: entry.at)
