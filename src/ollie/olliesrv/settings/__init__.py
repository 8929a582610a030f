"""What agents work with: the configuration, profiles, the keys of `cfg`, ceilings, and what follows from them all."""
