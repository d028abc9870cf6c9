"""Jobs of many ranks made up from what real ones print, each with its answer known."""
