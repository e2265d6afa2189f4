"""Who among several nodes is the primary; imports nothing of ``registry``."""
