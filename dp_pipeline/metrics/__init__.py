"""Quality of what was released: arrays in, numbers out."""
