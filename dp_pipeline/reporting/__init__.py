"""Words, pages and figures about releases."""
