"""The contenders under a name: the view, the ticket, the wait queue, names, contenders."""
