"""The page: what a browser is shown. Static files, and `html`, which writes the HTML around them."""
