"""The arguments of the `fleet` command's verbs. Nothing here imports what does them."""
