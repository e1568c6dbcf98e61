"""
What Django looks for by name: models, admin, commands, templates.
"""
