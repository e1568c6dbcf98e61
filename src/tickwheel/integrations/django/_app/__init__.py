"""
The parts of an app that Django looks for by name: models, admin, commands, templates.
"""
