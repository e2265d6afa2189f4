"""Processes beside a process, for questions about schemas that would keep it from answering others."""
