"""``{% load pynacount %}``."""
