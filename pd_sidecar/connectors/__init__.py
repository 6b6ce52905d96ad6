"""How the cache of a prefill engine reaches the decode engine: one file for each way."""
