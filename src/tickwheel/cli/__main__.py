"""
`python -m tickwheel.cli`, which is `tickwheel`.
"""

from tickwheel.cli import main

main()
