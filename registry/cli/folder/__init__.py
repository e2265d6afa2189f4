"""Folders of schema files, and the plan that makes a registry hold what they hold."""
