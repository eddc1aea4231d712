"""Group commit: calls of one process's threads that arrive for the same item share one request.

There is no thread of its own. The first caller of a group *leads* it: it waits out the window, sends for all, and tells
each its answer. While it sends, the next group gathers. So nothing has to be flushed before a fork or at the
interpreter's exit: whatever is unanswered belongs to a caller that is still waiting.
"""
