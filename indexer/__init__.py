"""Which endpoint holds which KV block: events of engines in, matches for prompts out.

In the order in which an event meets them: `subscriber` (the only IO) reads frames; `feed` checks
their sequence; `engines` decodes them into `events`; `ledger` (`storage` for what endpoints share)
turns events into block hashes (`hashing`, `parking`, `pieces`), told apart by `groups`, and stores
them in `index`, beside the guesses of `speculative`; what pools keep comes in by `pooling`. The
index keeps `shelves` of masks (`holders`, `traits`) and `names` (`claims` where they stand for
nothing yet) within a `budget`; `matching` walks them. The router uses `prefix_index`, and the words
of `block` and `media`; whoever calls MindIE Motor's conductor meets `conductor`.
"""
