"""The page: what a browser is shown. Static files, and `pages`, which writes the HTML around them."""
