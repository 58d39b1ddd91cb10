"""What answers look like, for the OpenAPI schema. The answers themselves are written as JSON at
once, without passing through these classes; tests hold the two together."""

from typing import Any, Literal

from pydantic import BaseModel, Field


class Passage(BaseModel):
    """An entry of the datastore, with the text around it."""

    entry: int
    token: int
    text: str = Field(description="What the token spells")
    before: str
    after: str
    cut_before: bool = Field(description="Whether the document has more text before")
    cut_after: bool
    document: str


class Neighbor(Passage):
    """An entry of the datastore that voted."""

    score: float = Field(description="Its similarity: higher is nearer")
    weight: float = Field(description="Its share of the vote")
    is_target: bool = Field(description="Whether its token is the one that was predicted")


class PassagesAnswer(BaseModel):
    """POST /api/entries"""

    entries: list[Passage]


class TokenSources(BaseModel):
    """Where a new token comes from. log 0 is null."""

    id: int
    logprob: float | None = Field(description="log P")
    lm_logprob: float | None = Field(description="log p_LM")
    component_logprob: float | None = Field(description="log p_kNN, or another component's")
    neighbors: list[Neighbor]


class Usage(BaseModel):
    """Tokens read and written."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class CompletionLogprobsField(BaseModel):
    """Parallel lists, one element for each token."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class CompletionChoice(BaseModel):
    """A text that was continued."""

    index: int
    text: str
    logprobs: CompletionLogprobsField | None
    finish_reason: Literal["stop", "length"]
    knn: list[TokenSources] | None = Field(
        default=None, description="One object for each new token, if knn.sources asked for them"
    )


class CompletionAnswer(BaseModel):
    """POST /v1/completions"""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage


class NamedLogprob(BaseModel):
    """A token of a chat; the bytes of a part of a letter are null."""

    token: str
    logprob: float
    bytes: list[int] | None


class ChatTokenLogprob(NamedLogprob):
    """A token of a chat, and the likeliest ones in its place."""

    top_logprobs: list[NamedLogprob]


class ChatLogprobsField(BaseModel):
    """One object for each token."""

    content: list[ChatTokenLogprob]


class ChatMessage(BaseModel):
    """What was answered."""

    role: Literal["assistant"]
    content: str
    refusal: None


class ChatChoice(BaseModel):
    """An answer."""

    index: int
    message: ChatMessage
    logprobs: ChatLogprobsField | None
    finish_reason: Literal["stop", "length"]
    knn: list[TokenSources] | None = None


class ChatAnswer(BaseModel):
    """POST /v1/chat/completions"""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class Model(BaseModel):
    """What can be asked for as `model`."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelsAnswer(BaseModel):
    """GET /v1/models"""

    object: Literal["list"]
    data: list[Model]


class SettingsAnswer(BaseModel):
    """What was mixed with the LM."""

    component: str
    lam: float = Field(alias="lambda")
    tau: float
    k: int | None


class LikelyToken(BaseModel):
    """A token that a distribution gives much."""

    id: int
    text: str
    logprob: float | None


class ScoredToken(BaseModel):
    """A token of a text: how probable it was, and who voted. log 0 is null."""

    id: int
    text: str
    lm_logprob: float | None = Field(description="log p_LM")
    component_logprob: float | None = Field(
        description="log p_kNN, or another component's; null also at λ = 0, where nothing is asked"
    )
    logprob: float | None = Field(description="log P")
    rank: int = Field(description="1 if no token was more probable")
    lm_top: list[LikelyToken]
    top: list[LikelyToken]
    neighbors: list[Neighbor]


class ScoreAnswer(BaseModel):
    """POST /api/score"""

    settings: SettingsAnswer
    prompt: list[str] = Field(description="The tokens before the first that is scored")
    tokens: list[ScoredToken]
    votes: dict[str, Any] | None = Field(default=None, description="All votes, for the page")


class InfoAnswer(BaseModel):
    """GET /api/info"""

    version: str
    model: str
    base_model: dict[str, Any]
    entries: int
    documents: int
    keys: list[str]
    vocabulary: int
    settings: SettingsAnswer
    metric: Literal["l2", "ip"] | None
    components: list[str]
    chat: bool
    context: int | None
    most_scored: int


class HealthAnswer(BaseModel):
    """GET /healthz"""

    status: Literal["ok"]
