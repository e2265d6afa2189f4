"""Reading what registries hold through their API, and taking the steps of plans there."""
