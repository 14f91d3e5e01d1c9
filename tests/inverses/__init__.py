"""A campaign against every inverse: random cases over the whole domain, checked in Arb."""
