"""Tallies as a whole: counting children, seeding."""
