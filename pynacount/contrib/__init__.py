"""pynacount at home in web frameworks. What they share is in the modules beside their own."""
