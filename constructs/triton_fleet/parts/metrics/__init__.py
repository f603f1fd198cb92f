"""The metrics of an endpoint: names, dimensions and units.

`published` has the metrics in CloudWatch, `facts` their units and dimensions; `server_log` counts what the
server's log says.
"""
