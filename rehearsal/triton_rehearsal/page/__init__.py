"""The page about a rehearsal: its dashboards with their data, its instances, its timeline and its alarms.

`document` reads all of it into one JSON document, through the APIs that an operator uses. `page.html` draws
that document, live from `server`, or from a file that `report` writes.
"""
