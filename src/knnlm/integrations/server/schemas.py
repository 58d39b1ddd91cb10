"""What requests may say. Fields that are not here are refused, so that nothing is silently ignored.

The names are those of the OpenAI API; `knn` is ours."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

MOST_CHARACTERS = 200_000
MOST_TOKENS = 100_000
MOST_LOGPROBS = 20
MOST_STOPS = 4
_NULL, _ABOUT = {"type": "null"}, ("title", "description", "default")


def _no_truth_value(value: Any) -> Any:
    """In Python true is 1."""
    if isinstance(value, bool):
        raise ValueError("a number is needed, not true or false")
    return value


_TOKEN = Annotated[int, BeforeValidator(_no_truth_value), Field(ge=0)]
Text = Annotated[str, Field(max_length=MOST_CHARACTERS)]
Tokens = Annotated[list[_TOKEN], Field(min_length=1, max_length=MOST_TOKENS)]


class _Request(BaseModel):
    """Clients may send null for what they leave open; it is as if it were left out."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _without_null(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        return {name: value for name, value in fields.items() if value is not None}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        schema: dict[str, Any] = handler.resolve_ref_schema(handler(core))
        for name, field in schema.get("properties", {}).items():
            if name not in schema.get("required", ()) and _NULL not in field.get("anyOf", ()):
                about = {key: field.pop(key) for key in _ABOUT if key in field}
                schema["properties"][name] = {"anyOf": [field, _NULL], **about}
        return schema


class Settings(_Request):
    """What is mixed with the LM; what is left out is as the datastore was tuned."""

    lam: float | None = Field(default=None, alias="lambda", ge=0, le=1, description="λ")
    tau: float | None = Field(default=None, gt=0, description="The retrieval temperature τ")
    k: int | None = Field(default=None, ge=1, description="How many neighbors vote")
    component: str | None = Field(
        default=None, max_length=200, description='"knn" or a component\'s name'
    )


class KNNField(Settings):
    """The settings of a request, and what it returns of the neighbors."""

    sources: int = Field(
        default=0,
        ge=0,
        le=10,
        description="How many neighbors of each new token are returned with it",
    )


class StreamOptions(_Request):
    """What a stream ends with."""

    include_usage: bool = False


class GeneratingRequest(_Request):
    """What completions and chats share."""

    model: str | None = Field(default=None, max_length=200)
    temperature: float = Field(default=1.0, ge=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    n: int = Field(default=1, ge=1, le=16)
    stream: bool = False
    stream_options: StreamOptions | None = None
    stop: (
        Annotated[str, Field(max_length=200)]
        | Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=MOST_STOPS)]
        | None
    ) = None
    presence_penalty: float = Field(default=0.0, ge=-2, le=2)
    frequency_penalty: float = Field(default=0.0, ge=-2, le=2)
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] | None = Field(
        default=None, max_length=300
    )
    seed: int | None = Field(default=None, ge=-(1 << 63), lt=1 << 63)
    user: str | None = Field(default=None, max_length=200, description="Not used")
    knn: KNNField = KNNField()

    @model_validator(mode="after")
    def _streams_what_it_says(self) -> "GeneratingRequest":
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options needs stream: set it to true")
        return self

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings."""
        given = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return tuple(stop for stop in given if stop)


class CompletionRequest(GeneratingRequest):
    """POST /v1/completions"""

    prompt: (
        Text
        | Annotated[list[Text], Field(min_length=1, max_length=128)]
        | Tokens
        | Annotated[list[Tokens], Field(min_length=1, max_length=128)]
    )
    max_tokens: int = Field(default=16, ge=0, le=100_000)
    logprobs: int | None = Field(default=None, ge=0, le=MOST_LOGPROBS)
    echo: bool = False
    best_of: int | None = Field(default=None, ge=1, le=16, description="Must be n, if it is given")


class TextPart(_Request):
    """A part of a message."""

    type: Literal["text"]
    text: Text


class Message(_Request):
    """A message of a conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Text | Annotated[list[TextPart], Field(min_length=1, max_length=100)]
    name: str | None = Field(default=None, max_length=200, description="Not used")

    @property
    def text(self) -> str:
        """All of its text."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content)


class ChatRequest(GeneratingRequest):
    """POST /v1/chat/completions"""

    messages: Annotated[list[Message], Field(min_length=1, max_length=1000)]
    max_tokens: int | None = Field(default=None, ge=1, le=100_000)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=100_000)
    logprobs: bool = False
    top_logprobs: int | None = Field(default=None, ge=0, le=MOST_LOGPROBS)


class ScoreRequest(_Request):
    """POST /api/score"""

    text: Text | None = Field(default=None, description="The text; or `tokens`")
    tokens: Tokens | None = None
    start: int = Field(
        default=1, ge=1, description="The first token to score; the first is not predicted"
    )
    knn: Settings = Settings()
    neighbors: int = Field(
        default=5, ge=0, le=50, description="How many neighbors are returned with context"
    )
    top: int = Field(default=10, ge=0, le=50, description="How many of the LM's likeliest tokens")
    votes: bool = Field(
        default=False,
        description="Also return every vote as arrays, with what is needed to leave any two "
        "documents out: the page computes λ, τ, k and P from them",
    )


class EntriesRequest(_Request):
    """POST /api/entries"""

    entries: Annotated[list[_TOKEN], Field(min_length=1, max_length=100)]


class ErrorBody(BaseModel):
    """What went wrong, and what to do."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorResponse(BaseModel):
    """The body of every answer that is not a success."""

    error: ErrorBody
