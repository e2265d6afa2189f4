"""Worker processes that parse and compare large schemas off the event loop and the writer."""
