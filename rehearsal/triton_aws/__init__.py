"""The embedded AWS: moto, with the resource types and answers that it lacks."""
