"""The board in Flask. ``python docs/examples/flask_board/run.py`` tries it, on a table in memory."""
