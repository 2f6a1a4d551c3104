"""The JSON Schema of data set files, made from the same words as the parser and the models."""
