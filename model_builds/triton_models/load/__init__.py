"""`fleet load`: an open loop of requests against an endpoint or a Triton server, and what it found.

`schedule` computes all moments before the first request is sent. `targets` are what is asked, `generator`
sends each request at its moment, whatever became of those before, and `result` has the figures: times from
the intended moment, or the reason why the generator was the limit.
"""
