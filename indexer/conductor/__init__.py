"""The conductor: MindIE Motor's `kv-conductor` API over the index, for whoever calls one.

`wire` is what is said over HTTP, `told` what events mean, `registry` who registered, `coverage` the
formula of the answers and `conductor` all of it as one object. IO: `http` and `service`.
"""
