"""One flat record a document, for each benchmark."""
