"""What a chat template wants to be given, read from its syntax tree.

A template that loops over a message's content wants content as a list of parts; any other wants a
string. The loop may be direct, over a variable called `content`, or inside a macro that is called
with a message's content. vLLM decides in the same way (--chat-template-content-format auto).
"""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import nodes

_CONTENT = "content"


def wants_parts(template: nodes.Template) -> bool:
    """Whether message content is handed over as a list of parts."""
    messages = _message_names(template)
    in_macros: set[nodes.For] = set()
    for macro in template.find_all(nodes.Macro):
        loops = list(macro.find_all(nodes.For))
        in_macros.update(loops)
        names = _content_parameters(template, macro, messages)
        if any(_name(loop.iter) in names for loop in loops):
            return True
    return any(
        _is_content(loop.iter, messages) or (loop not in in_macros and _name(loop.iter) == _CONTENT)
        for loop in template.find_all(nodes.For)
    )


def _message_names(template: nodes.Template) -> set[str]:
    """Names that loops give to a single message."""
    lists = _aliases(template, "messages")
    return {
        loop.target.name
        for loop in template.find_all(nodes.For)
        if isinstance(loop.target, nodes.Name) and _variable(loop.iter) in lists
    }


def _aliases(template: nodes.Template, name: str) -> set[str]:
    """The name and every variable it, or a slice or filtering of it, is assigned to."""
    found = {name}
    waiting = [name]
    while waiting:
        source = waiting.pop()
        for assign in template.find_all(nodes.Assign):
            target = assign.target
            if (
                isinstance(target, nodes.Name)
                and target.name not in found
                and _variable(assign.node) == source
            ):
                found.add(target.name)
                waiting.append(target.name)
    return found


def _content_parameters(
    template: nodes.Template, macro: nodes.Macro, messages: set[str]
) -> set[str]:
    """The macro's parameters that some call fills with a message's content."""
    parameters = [argument.name for argument in macro.args]
    calls = (
        call
        for call in template.find_all(nodes.Call)
        if isinstance(call.node, nodes.Name) and call.node.name == macro.name
    )
    return {
        name
        for call in calls
        for name, value in _arguments(call, parameters)
        if _is_content(value, messages)
    }


def _arguments(call: nodes.Call, parameters: list[str]) -> Iterator[tuple[str, nodes.Expr]]:
    yield from zip(parameters, call.args, strict=False)
    for keyword in call.kwargs:
        if isinstance(keyword, nodes.Keyword) and keyword.key in parameters:
            yield keyword.key, keyword.value


def _is_content(node: nodes.Node, messages: set[str]) -> bool:
    node = _unwrapped(node)
    match node:
        case nodes.Getattr(attr=key):
            return key == _CONTENT and _name(node.node) in messages
        case nodes.Getitem(arg=nodes.Const(value=key)):
            return key == _CONTENT and _name(node.node) in messages
        case _:
            return False


def _variable(node: nodes.Node) -> str | None:
    return _name(_unwrapped(node))


def _name(node: nodes.Node) -> str | None:
    return node.name if isinstance(node, nodes.Name) and node.ctx == "load" else None


def _unwrapped(node: nodes.Node) -> nodes.Node:
    """What is filtered, tested or sliced."""
    while True:
        match node:
            case nodes.Filter(node=nodes.Expr() as inner) | nodes.Test(node=inner):
                node = inner
            case nodes.Getitem(node=inner, arg=nodes.Slice()):
                node = inner
            case _:
                return node
