"""The census: which schemas the messages of topics and files name, counted by Spark."""
