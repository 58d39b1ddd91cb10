"""`knnlm serve`: a kNN-LM behind the OpenAI API, and the explorer.

schemas        what requests may say                guards     who may ask, how much, from where
app            the routes                           errors     what refusals look like
answer_schemas what answers look like               documenting    the rest of the OpenAPI schema
answers        choices, whole or as a stream        completions    requests → texts for the engine
responding     answers on their way to the client   logprobs   log P of tokens, as clients expect it
scoring        a text token by token                sources    the passages behind a prediction
engine         the one thread that runs the model   batch      texts that take a step together
continuation   one text: choosing tokens, stops     predictor  the model, with settings per request
metrics        counters for Prometheus              pages      the explorer's files
run            uvicorn, from start to shutdown      connections    those that ask for nothing
"""
