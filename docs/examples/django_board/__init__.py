"""The board in Django. ``python docs/examples/django_board/run.py`` tries it, on a table in memory."""
