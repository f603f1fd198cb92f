"""Many models made and published in one run, each on its own: what befalls one of them befalls no other."""
