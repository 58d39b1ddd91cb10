"""The command line: one file per verb, each a thin layer over knnlm.api. Results on stdout, the
rest on stderr."""
