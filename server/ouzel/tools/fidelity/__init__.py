"""How faithful a build of a language model is to the weights that it was made of."""
