"""The decode side of prefill/decode disaggregation: a proxy before a decode engine.

    client ─► Envoy ─► proxy ─┬─► prefill engine    the prompt, one token
                              └─► decode engine     the answer, with the prompt's cache handed over

A request names its prefill engine in `x-prefiller-host-port`, which the router sets; without that
header the proxy only passes it on. `connectors/` holds one file for each way to hand a cache over.
A prefill that cannot be had costs no request: the decode engine answers alone, and the answer's
`x-warmroute-prefill` says so.
"""
