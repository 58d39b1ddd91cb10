"""Forward hooks that read hidden states while a model runs, verified when they attach.

`forward` is never replaced, and the output embedding runs only where its logits are needed. What
the hooks read is checked on a few tokens before the first use (verify.py); a model that fails is
refused."""

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, Self

import torch

from knnlm.errors import KnnlmError
from knnlm.hidden_states.att import AttLocation, locate_att
from knnlm.hidden_states.keys import KEYS, checked_keys
from knnlm.hidden_states.output_head import model_logits, output_embedding
from knnlm.hidden_states.verify import base_model_outputs_ffn, probe_tokens, verify_reader


class States(NamedTuple):
    """Hidden states of a batch, (B, T, D) each; `att` is None where the reader does not read it."""

    att: torch.Tensor | None
    ffn: torch.Tensor

    def of(self, key: str) -> torch.Tensor:
        """The states named `key`: "att" or "ffn"."""
        states = self.att if key == "att" else self.ffn
        assert states is not None
        return states


class Capture:
    """The tensors that a reader's hooks kept while the model ran.

    `tensors` may hold "output_embedding_input", "feed_forward_input", "attention_output" and, for
    parallel blocks, "block_input". Calls after each other overwrite them.
    """

    def __init__(self, reader: "StateReader") -> None:
        self.reader = reader
        self.tensors: dict[str, torch.Tensor] = {}

    def att(self, batch: int) -> torch.Tensor:
        """att (B, T, D) at every position, for `batch` sequences.

        OPT hands its feed-forward layer a flattened (B·T, D), so the batch size must be given.
        """
        assert self.reader.att_location is not None
        state = self.reader.att_location.state(self.tensors)
        return state.reshape(batch, -1, state.shape[-1])

    @property
    def ffn(self) -> torch.Tensor:
        """ffn (B, T', D), only at the positions where the model was asked to predict."""
        return self.tensors["output_embedding_input"]


# Hooks stay attached as long as the reader, so a context variable tells them which calls to
# capture: those of this thread, inside `capture`.
_CURRENT: ContextVar[Capture | None] = ContextVar("knnlm_capture", default=None)


def default_keys(model: Any, att_module: str | None = None) -> tuple[tuple[str, ...], str]:
    """Which hidden states to store of a model if the user does not say.

    Args:
        model: A causal LM of transformers.
        att_module: The module whose input is att, if the user named one.

    Returns:
        Both keys and an empty sentence; or "ffn" alone where att is not defined for the model, and
        a sentence that says why.
    """
    if att_module is not None:
        return KEYS, ""
    try:
        locate_att(model)
    except KnnlmError as error:
        return ("ffn",), f"storing 'ffn' states only: {error}"
    return KEYS, ""


class StateReader:
    """Reads hidden states of a causal LM, from any number of threads.

    Close it, or use it in a `with`, to remove its hooks from the model.

    Args:
        model: A causal LM of transformers.
        keys: Which states to read, of `KEYS`.
        att_module: Path of the module whose input is att, for a model that is not in `FAMILIES`.
        replace_att: A state to read instead of att, for experiments. It is not checked to be att.

    Raises:
        KnnlmError: The states could not be located, or were not what they should be.
        UsageError: An unknown key or module.

    Example:
        >>> with StateReader(model) as reader:
        ...     states = reader.read(ids)  # ids (B, T)
        ...     logits = reader.logits(states.ffn)  # those of model(ids)
    """

    def __init__(
        self,
        model: Any,
        keys: Sequence[str] = KEYS,
        att_module: str | None = None,
        *,
        replace_att: AttLocation | None = None,
    ) -> None:
        self.model, self.keys = model, checked_keys(keys)
        self.head = output_embedding(model)
        self.att_location: AttLocation | None = None
        if "att" in self.keys:
            self.att_location = replace_att or locate_att(model, att_module)
        self._widths: dict[str, int] | None = None  # until somebody asks
        self._handles = self._attach()
        try:
            self._needs_head = not base_model_outputs_ffn(self)
            verify_reader(self, check_att=replace_att is None)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the hooks."""
        while self._handles:
            self._handles.pop().remove()

    @property
    def device(self) -> torch.device:
        """The device on which token ids must be."""
        device = self.model.get_input_embeddings().weight.device
        assert isinstance(device, torch.device)
        return device

    def read(self, ids: torch.Tensor) -> States:
        """Run the model, without its output embedding where that is possible, and read its states.

        Args:
            ids: Token ids (B, T), on the reader's device.

        Returns:
            States at every position, (B, T, D).
        """
        with self.capture() as capture:
            if self._needs_head:
                self.model(input_ids=ids, use_cache=False)
                ffn = capture.ffn
            else:
                ffn = self.model.base_model(input_ids=ids, use_cache=False).last_hidden_state
        return States(capture.att(len(ids)) if self.att_location is not None else None, ffn)

    @contextlib.contextmanager
    def capture(self) -> Iterator[Capture]:
        """Capture states from calls of the model that you make yourself.

        Only calls in this thread, inside the `with`, are captured.

        Example:
            >>> with reader.capture() as capture:
            ...     output = model(input_ids=ids, past_key_values=cache)
            >>> capture.ffn
        """
        capture = Capture(self)
        token = _CURRENT.set(capture)
        try:
            yield capture
        finally:
            _CURRENT.reset(token)

    def current_capture(self) -> Capture | None:
        """The capture to which the running call of the model belongs, if it is one of this reader.

        Hooks ask this before they act, because other threads may be using the same model.
        """
        capture = _CURRENT.get()
        return capture if capture is not None and capture.reader is self else None

    def logits(self, ffn: torch.Tensor) -> torch.Tensor:
        """The model's own logits (…, V) for ffn states (…, D)."""
        return model_logits(self.model, ffn)

    def widths(self) -> dict[str, int]:
        """The width D of each key."""
        if self._widths is None:
            with torch.inference_mode():
                states = self.read(probe_tokens(self))
            self._widths = {key: states.of(key).shape[-1] for key in self.keys}
        return self._widths

    def describe(self) -> dict[str, str]:
        """Which vector each key is, in one line, for the record."""
        lines = {
            "att": self.att_location.description if self.att_location is not None else "",
            "ffn": "input of the output embedding",
        }
        return {key: lines[key] for key in self.keys}

    def _attach(self) -> list[Any]:
        inputs = {"output_embedding_input": self.head}
        outputs = {}
        if self.att_location is not None:
            outputs["attention_output"] = self.att_location.attention
            inputs["feed_forward_input"] = self.att_location.feed_forward
            if self.att_location.parallel:
                inputs["block_input"] = self.att_location.block
        return [
            *(
                module.register_forward_pre_hook(self._keep_input(name), with_kwargs=True)
                for name, module in inputs.items()
            ),
            *(
                module.register_forward_hook(self._keep_output(name))
                for name, module in outputs.items()
            ),
        ]

    def _keep_input(self, name: str) -> Any:
        def keep(_: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
            if (capture := self.current_capture()) is not None:
                capture.tensors[name] = arguments[0] if arguments else named["hidden_states"]

        return keep

    def _keep_output(self, name: str) -> Any:
        def keep(_: Any, __: Any, output: Any) -> None:
            if (capture := self.current_capture()) is not None:
                capture.tensors[name] = output[0] if isinstance(output, tuple) else output

        return keep
