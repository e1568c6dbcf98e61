"""
The parts of an app that Django finds by name: models, admin, commands, templates.
"""
