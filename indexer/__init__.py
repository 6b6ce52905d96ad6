"""Which endpoint holds which KV block: events of engines in, matches for prompts out.

In the order in which an event meets them: `subscriber` (the only IO) reads frames; `feed` checks
their sequence; `engines` decodes them into `events`; `ledger` turns events into block hashes
(`hashing`, `parking`) and stores them in `index`, beside the guesses of `speculative`. The router
uses `prefix_index`, and the words of `block`.
"""
