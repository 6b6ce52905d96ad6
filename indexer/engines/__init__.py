"""One module per family of event formats; each turns a payload into a `Batch`."""
