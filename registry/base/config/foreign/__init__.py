"""Settings of Confluent's Schema Registry and of Karapace, mapped to those of Registrar."""
