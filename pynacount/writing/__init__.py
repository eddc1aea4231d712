"""Counted writes: what one save or delete intends, and the protocols that perform it."""
