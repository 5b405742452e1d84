"""Click commands over the public API; nothing here touches the server itself."""
