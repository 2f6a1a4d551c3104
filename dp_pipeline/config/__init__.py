"""What is declared before anybody looks at a row."""
