"""A model's chat templates: a chat body becomes the prompt's text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Self

import jinja2
import msgspec
from jinja2 import meta

from tokenizer_sidecar import fields
from tokenizer_sidecar.errors import ModelError, RenderError, Unsupported
from tokenizer_sidecar.messages import Message, conversation, tools
from tokenizer_sidecar.model_files import DEFAULT, TOOL_USE, read_templates
from tokenizer_sidecar.sandbox import Now, environment
from tokenizer_sidecar.template_shape import wants_parts

_RENDER_ERRORS = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What a template can raise on input it did not expect; the engine answers 400 to each."""

_UNSET = (None, "auto")
"""Values in chat_template_kwargs that vLLM takes for no value at all."""

_CONTINUE = "<|warmroute: continue here|> "
"""Marks where the final message ends. The space at its end shows whether the template trims."""

_REQUEST_TEMPLATES = 32
"""Compiled templates kept of those that came in requests."""


class _Compiled(msgspec.Struct, frozen=True):
    template: jinja2.Template
    variables: frozenset[str]
    parts: bool
    developer: bool
    mentions_content: bool


class ChatTemplate:
    """The templates of one model, compiled once. Safe to use from many threads.

    Args:
        named: Template text by name; "default" is used, and "tool_use" for requests with tools.
        special_tokens: Variables every template sees.
        trust_request_template: Whether a template in a request is used; otherwise it is refused.
        now: The clock for templates that print the date.

    Raises ModelError where a template has a mistake.
    """

    def __init__(
        self,
        named: Mapping[str, str],
        special_tokens: Mapping[str, str],
        *,
        trust_request_template: bool = False,
        now: Now = datetime.now,
    ) -> None:
        self._special_tokens = special_tokens
        self._trusting = trust_request_template
        compile_one = partial(_compile, environment(now))
        self._of_request = lru_cache(_REQUEST_TEMPLATES)(compile_one)
        self._named: dict[str, _Compiled] = {}
        for name, source in named.items():
            try:
                self._named[name] = compile_one(source)
            except jinja2.TemplateSyntaxError as error:
                raise ModelError(
                    f"chat template {name!r}, line {error.lineno}: {error.message}"
                ) from error

    @classmethod
    def load(cls, directory: Path, *, trust_request_template: bool = False) -> Self:
        """Read the directory's templates; a model may have none. Raises ModelError."""
        sources = read_templates(directory)
        try:
            return cls(
                sources.named,
                sources.special_tokens,
                trust_request_template=trust_request_template,
            )
        except ModelError as error:
            raise ModelError(f"{directory}: {error}") from error

    def render(self, body: Mapping[str, Any]) -> str:
        """The prompt's text. Raises RenderError, Unsupported."""
        kwargs = fields.mapping(body, "chat_template_kwargs")
        given_tools = tools(body.get("tools"))
        chosen = self._choose(body, kwargs, given_tools)
        messages = conversation(body, parts=chosen.parts, developer=chosen.developer)
        generate = fields.flag(body, "add_generation_prompt", default=True)
        continues = fields.flag(body, "continue_final_message", default=False)
        if continues and generate:
            raise RenderError("continue_final_message needs add_generation_prompt to be false")
        variables: dict[str, Any] = {
            **self._special_tokens,
            "tools": given_tools,
            "documents": None,
            **{
                name: value
                for name, value in kwargs.items()
                if name in chosen.variables and value not in _UNSET
            },
            **_request_variables(body, kwargs),
            "messages": messages,
            "add_generation_prompt": generate,
        }
        if continues:
            return _continue(chosen, messages, variables)
        return _render(chosen, variables)

    def _choose(
        self, body: Mapping[str, Any], kwargs: Mapping[str, Any], given_tools: list[Message] | None
    ) -> _Compiled:
        requested = body.get("chat_template")
        if requested is None:
            requested = kwargs.get("chat_template")
        if requested is not None:
            return self._compile_requested(requested)
        for name in (TOOL_USE, DEFAULT) if given_tools is not None else (DEFAULT,):
            if name in self._named:
                return self._named[name]
        raise Unsupported("the model has no chat template")

    def _compile_requested(self, source: Any) -> _Compiled:
        if not self._trusting:
            raise RenderError("a chat template in the request is not trusted")
        if not isinstance(source, str):
            raise RenderError("chat_template must be a string")
        try:
            return self._of_request(source)
        except jinja2.TemplateSyntaxError as error:
            raise RenderError(f"chat_template, line {error.lineno}: {error.message}") from error


def _compile(env: jinja2.Environment, source: str) -> _Compiled:
    tree = env.parse(source)
    template = env.from_string(source)
    # They are copied for each rendering, which takes long from the chain of maps they come in.
    template.globals = dict(template.globals)
    return _Compiled(
        template=template,
        # Finding the variables changes the tree, so it is given one of its own.
        variables=frozenset(meta.find_undeclared_variables(env.parse(source))),
        parts=wants_parts(tree),
        developer='"developer"' in source or "'developer'" in source,
        mentions_content="content" in source,
    )


def _request_variables(body: Mapping[str, Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of the request that win over chat_template_kwargs where they are set."""
    found: dict[str, Any] = {}
    documents = body.get("documents")
    if documents is not None:
        if not isinstance(documents, list) or not all(isinstance(d, dict) for d in documents):
            raise RenderError("documents must be a list of objects")
        found["documents"] = documents
    effort = body.get("reasoning_effort")
    if effort is not None:
        if not isinstance(effort, str):
            raise RenderError("reasoning_effort must be a string")
        found["reasoning_effort"] = effort
        if "enable_thinking" not in kwargs:
            found["enable_thinking"] = effort != "none"
    return found


def _render(chosen: _Compiled, variables: Mapping[str, Any]) -> str:
    try:
        return chosen.template.render(variables)
    except _RENDER_ERRORS as error:
        raise RenderError(f"the chat template refuses this: {error}") from error


def _continue(chosen: _Compiled, messages: list[Message], variables: Mapping[str, Any]) -> str:
    """Render with the final message left open: what the template puts after it is cut off."""
    if not chosen.mentions_content:
        raise RenderError("the chat template has no content to continue")
    final, text = _marked(messages[-1])
    rendered = _render(chosen, {**variables, "messages": [*messages[:-1], final]})
    marker = _CONTINUE.rstrip()
    end = rendered.rfind(marker)
    if end < 0 or text.strip() not in rendered:
        raise RenderError("the chat template does not show the final message it should continue")
    if rendered.startswith(_CONTINUE, end):
        return rendered[:end]
    # The template trimmed the message, so the marker's space is gone and so is the text's.
    return rendered[:end].rstrip()


def _marked(message: Message) -> tuple[Message, str]:
    """The message with the marker after its last text, and that text."""
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": content + _CONTINUE}, content
    for i in reversed(range(len(content))):
        if "text" in content[i]:
            text: str = content[i]["text"]
            part = {**content[i], "text": text + _CONTINUE}
            return {**message, "content": [*content[:i], part, *content[i + 1 :]]}, text
    raise RenderError("the final message has no text to continue")
