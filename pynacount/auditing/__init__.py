"""What an audit of a table is shown with."""
