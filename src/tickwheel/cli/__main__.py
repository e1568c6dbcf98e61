from tickwheel.cli import main

main()
