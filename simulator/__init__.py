"""A simulated vLLM engine: HTTP, prefix cache, KV events and metrics, without a model.

    http ─► generate, render, admin     routes
               └► prepare               text becomes tokens and block hashes
               └► answering ─► rank     one request, and the loop that steps the engine
                                └► engine ─► blocks     scheduler and prefix cache, without IO
                                └► events, metrics      what the outside sees of it

Start with `engine` and `blocks`; `http` has the way in: `serve(EngineConfig(…), ready, stop)`.
"""
