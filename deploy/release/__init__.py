"""Releases: what is published, built here and checked here, and the steps that publish it."""
