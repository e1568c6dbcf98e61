"""
The engine: stages jobs, fires them on time, and settles them.

    leases -> prefetcher -> claims -> dispatcher -> completer -> writer -> prefetcher (for what lives on)
              watcher ^ (what other processes wrote)

Internal: other packages use it, users do not.
"""
