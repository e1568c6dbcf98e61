"""
Internal: the engine, which stages jobs, fires them on time, and settles (acknowledges) them.

Each part passes its work on to the next:

    leases -> prefetcher -> claims -> dispatcher -> completer -> writer -> prefetcher (for next runs and attempts)
    watcher (writes of other processes) -> prefetcher
"""
