"""Text before it is spoken: limits, sentences, and the English normalizer that a voice may ask for. Pure."""
