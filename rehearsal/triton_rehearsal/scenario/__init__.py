"""Scenarios: traffic and faults for a rehearsed fleet of small models, and what must hold afterwards."""
