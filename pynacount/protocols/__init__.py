"""Protocols on the tally of one parent: counting, seeding, reading, repairing."""
