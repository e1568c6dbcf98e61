"""
tickwheel in web frameworks: the handlers of an application, and a scheduler that starts and stops with it.

    fastapi     a lifespan and a dependency, for FastAPI and Starlette
    flask       an extension
    django      an application: settings, handlers found in all other applications, a command, a page of the admin

Each module imports its framework on use.
"""
