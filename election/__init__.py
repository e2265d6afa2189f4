"""Election of the primary among several nodes; imports nothing of ``registry``."""
