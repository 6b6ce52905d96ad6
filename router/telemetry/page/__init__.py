"""The live page: what is counted for it, what is sent to viewers, and the document itself."""
