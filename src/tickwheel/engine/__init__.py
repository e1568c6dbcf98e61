"""
The engine: stages jobs, fires them on time, and settles them.

    leases -> stager -> armer -> dispatcher -> settler -> writer -> stager (for what lives on)
              watcher ^ (what other processes wrote)

Internal: other packages use it, users do not.
"""
