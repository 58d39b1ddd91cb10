const EXAMPLES = { about: "", examples: [] };
