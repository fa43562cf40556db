"""Jinja for check models and macros: a sandbox, and a flat namespace of macros as in dbt."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import jinja2
from jinja2 import nodes

from dqsql.errors import DqsqlError, JinjaError, MacroError, Span, nearest
from dqsql.model.macro_text import documentation
from dqsql.model.project import MacroFile, Target
from dqsql.redaction import PREFIXES
from dqsql.template_limits import LimitedEnvironment

# What a template can raise that is the template's fault. Everything else is a defect of dqsql.
_TEMPLATE_FAULTS: tuple[type[Exception], ...] = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    # Jinja compiles an infinite number to a name.
    NameError,
    RecursionError,
    TypeError,
    ValueError,
)
# Deeper nesting of macros than this is taken for a circle; each level costs a handful of frames
# of Python, whose own limit is 1000.
_MAX_DEPTH = 50
_SELF = "_dqsql_macro"
_CALL = 50  # steps of the budget of a rendering, which a macro call costs


def create_environment() -> LimitedEnvironment:
    """A sandboxed Jinja environment in which an undefined name is an error."""
    environment = LimitedEnvironment(
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        extensions=["jinja2.ext.do"],
        autoescape=False,
    )
    for name in ("as_text", "as_number", "as_bool", "as_native"):
        # dbt's filters for YAML values; the reader of the YAML converts by the key's type instead.
        environment.filters[name] = lambda value: value
    return environment


@dataclass(frozen=True, slots=True)
class MacroDef:
    """The signature and place of one macro.

    `required` counts the leading parameters without a default.
    """

    name: str
    path: str
    line: int
    parameters: tuple[str, ...]
    required: int
    catches_varargs: bool = False
    catches_kwargs: bool = False

    @property
    def span(self) -> Span:
        """Where the macro is defined."""
        return Span(self.path, self.line, 1, self.name)

    @property
    def signature(self) -> str:
        """`name(a, b, c?)`: a question mark is behind each optional parameter."""
        shown = [p if i < self.required else f"{p}?" for i, p in enumerate(self.parameters)]
        shown += ["*varargs"] * self.catches_varargs + ["**kwargs"] * self.catches_kwargs
        return f"{self.name}({', '.join(shown)})"


class MacroLibrary:
    """All macros of all files in one flat namespace, as in dbt.

    A later file overrides a macro of the same name in an earlier one: shipped files (absolute
    paths) come first, then the project's (relative paths). Each macro is compiled on its own, so
    that an override also reaches the callers in the overridden file.

    Raises:
        JinjaError: a file does not parse.
        MacroError: two files of the project, or one file twice, define the same macro.
    """

    def __init__(self, files: Sequence[MacroFile], context: Mapping[str, object]) -> None:
        self.environment = create_environment()
        # With those of Jinja: range, dict, namespace ..
        self._globals: dict[str, object] = {**self.environment.globals, **context}
        self._stack: list[str] = []
        self._functions: dict[str, Callable[..., object]] = {}
        self._files: dict[str, MacroFile] = {}
        macros: dict[str, MacroDef] = {}
        for file in files:
            for definition, node in self._definitions(file):
                _refuse_duplicate(definition, macros.get(definition.name))
                macros[definition.name] = definition
                self._files[definition.name] = file
                self._functions.pop(definition.name, None)
                if node is not None:
                    self._functions[definition.name] = self._compile(definition, node)
        self.macros: Mapping[str, MacroDef] = macros
        self._globals.update({name: self._bind(name) for name in macros})

    def documentation(self, name: str) -> str:
        """The comment above a macro, empty where there is none."""
        return documentation(self._files[name].text).get(name, "")

    def call(
        self,
        name: str,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        span: Span | None = None,
    ) -> str:
        """Render the macro `name` and return its text.

        Raises MacroError: no such macro, wrong arguments (at `span`, the place of the call), a
        circle of macros, or a failure inside the macro (at the line of the macro's file).
        """
        if name not in self.macros:
            raise MacroError(
                f"there is no macro {name!r}", span=span, hint=nearest(name, self.macros)
            )
        place = span or self.macros[name].span
        return str(self._invoke(name, tuple(args), dict(kwargs or {}), place))

    def render(self, text: str, path: str, context: Mapping[str, object] | None = None) -> str:
        """Render a template that sees all macros, the library's context, and `context`.

        Raises JinjaError at the line of the template, MacroError at the line of a macro, and
        passes on errors of dqsql's own functions with the template's line added.
        """
        with _syntax_errors(path, text):
            template = self.environment.from_string(text, globals=self._globals)
        known = {**self._globals, **(context or {})}
        variables = template.new_context(known, shared=False)
        self.environment.begin()
        try:
            return self.environment.collect(template.root_render_func(variables))
        except DqsqlError as error:
            raise _with_span(error, path, text) from error
        except _TEMPLATE_FAULTS as error:
            raise _template_error(error, path, text, known) from error

    def _definitions(self, file: MacroFile) -> Iterable[tuple[MacroDef, nodes.Macro | None]]:
        """What a file defines; shipped macros without the node, to be compiled when called."""
        if not is_shipped(file):
            return self._read(file)
        if file not in _SHIPPED:
            _SHIPPED[file] = tuple((definition, None) for definition, _ in self._read(file))
        return _SHIPPED[file]

    def _function(self, name: str) -> Callable[..., object]:
        if name not in self._functions:
            pairs = self._read(self._files[name])
            definition, node = next(pair for pair in pairs if pair[0].name == name)
            self._functions[name] = self._compile(definition, node)
        return self._functions[name]

    def _read(self, file: MacroFile) -> Iterator[tuple[MacroDef, nodes.Macro]]:
        with _syntax_errors(file.path, file.text):
            tree = self.environment.parse(file.text)
        seen: set[str] = set()
        for node in tree.find_all(nodes.Macro):
            definition = _definition(node, file)
            if node.name in seen:
                raise MacroError(
                    f"the macro {node.name!r} is defined twice in this file", span=definition.span
                )
            seen.add(node.name)
            yield definition, node

    def _compile(self, definition: MacroDef, node: nodes.Macro) -> Callable[..., object]:
        # Under another name, so that a call of itself also goes through the library.
        node.name = _SELF
        root = nodes.Template([node], lineno=node.lineno)
        root.set_environment(self.environment)
        path = definition.path
        with _syntax_errors(path, self._files[definition.name].text):
            code = self.environment.compile(root, name=path, filename=path)
        template = jinja2.Template.from_code(self.environment, code, self._globals)
        context = template.new_context(self._globals, shared=True)
        for _ in template.root_render_func(context):
            pass
        function: Callable[..., object] = context.vars[_SELF]
        return function

    def _bind(self, name: str) -> Callable[..., object]:
        def macro(*args: object, **kwargs: object) -> object:
            return self._invoke(name, args, kwargs, None)

        macro.__name__ = name
        return macro

    def _invoke(
        self, name: str, args: tuple[object, ...], kwargs: dict[str, object], span: Span | None
    ) -> object:
        definition = self.macros[name]
        # Jinja hands the body of a {% call %} block over as a keyword.
        named = {k: v for k, v in kwargs.items() if k != "caller"}
        if problem := _argument_problem(definition, args, named):
            raise MacroError(f"{problem}; its parameters are {definition.signature}", span=span)
        if len(self._stack) >= _MAX_DEPTH:
            raise self._circle(name)
        if not self._stack and span is not None:
            self.environment.begin()
        self._stack.append(name)
        try:
            self.environment.step(_CALL)
            return self._function(name)(*args, **kwargs)
        except DqsqlError as error:
            raise _with_span(error, definition.path, self._files[name].text) from error
        except _TEMPLATE_FAULTS as error:
            raise self._failure(error, definition, span) from error
        finally:
            self._stack.pop()

    def _circle(self, name: str) -> MacroError:
        chain = [*self._stack, name]
        start = len(chain) - 2 - chain[-2::-1].index(name) if name in chain[:-1] else 0
        circle = " -> ".join(chain[start:])
        return MacroError(f"circular macro {circle}", span=self.macros[name].span)

    def _failure(self, error: Exception, definition: MacroDef, call: Span | None) -> MacroError:
        word = _NO_ATTRIBUTE.search(str(error)) if call and is_shipped(definition) else None
        if word is not None:
            # What it takes is the first thing that its documentation says.
            message = f"@{definition.name.removeprefix('metric_')} takes no {word.group(1)!r}"
            known = self.documentation(definition.name).partition(". ")[0]
            return MacroError(message, span=call, hint=known)
        line = _traceback_line(error, definition.path) or definition.line
        where = definition.path, self._files[definition.name].text, line
        span, hint = _locate_fault(error, *where, self._globals)
        return MacroError(f"the macro {definition.name!r} failed: {error}", span=span, hint=hint)


_SHIPPED: dict[MacroFile, tuple[tuple[MacroDef, None], ...]] = {}


def is_shipped(file: MacroFile | MacroDef) -> bool:
    """Whether a macro is of dqsql's own."""
    return os.path.isabs(file.path)


def _refuse_duplicate(new: MacroDef, old: MacroDef | None) -> None:
    if old is None or is_shipped(old) or is_shipped(new):
        return
    message = f"the macro {new.name!r} is defined twice: here and at {old.span}"
    raise MacroError(message, span=new.span, hint="rename one of them")


def _definition(node: nodes.Macro, file: MacroFile) -> MacroDef:
    names = {n.name for n in node.find_all(nodes.Name)}
    return MacroDef(
        name=node.name,
        path=file.path,
        line=node.lineno,
        parameters=tuple(a.name for a in node.args),
        required=len(node.args) - len(node.defaults),
        catches_varargs="varargs" in names,
        catches_kwargs="kwargs" in names,
    )


def _argument_problem(
    macro: MacroDef, args: Sequence[object], kwargs: Mapping[str, object]
) -> str | None:
    given = macro.parameters[: len(args)]
    if len(args) > len(macro.parameters) and not macro.catches_varargs:
        return f"the macro {macro.name!r} got {len(args)} arguments"
    if repeated := [k for k in kwargs if k in given]:
        return f"the macro {macro.name!r} got {repeated[0]!r} twice"
    unknown = [k for k in kwargs if k not in macro.parameters]
    if unknown and not macro.catches_kwargs:
        return f"the macro {macro.name!r} has no parameter {unknown[0]!r}"
    missing = [p for p in macro.parameters[: macro.required] if p not in given and p not in kwargs]
    if missing:
        listed = ", ".join(repr(p) for p in missing)
        return f"the macro {macro.name!r} needs {listed}"
    return None


def _traceback_line(error: BaseException, path: str) -> int | None:
    """The line of the innermost frame of a template, read from Jinja's line table."""
    line = None
    names = (path, None, "<template>")
    frame: TracebackType | None = error.__traceback__
    while frame is not None:
        template = frame.tb_frame.f_globals.get("__jinja_template__")
        if isinstance(template, jinja2.Template) and template.filename in names:
            line = template.get_corresponding_lineno(frame.tb_lineno)
        frame = frame.tb_next
    return line


def locate(text: str, pattern: str, line: int = 1) -> tuple[int, int] | None:
    """Line and column of the first match of a regular expression at or below `line`.

    Jinja reports lines only, and for a long expression its first one.
    """
    start = sum(len(above) + 1 for above in text.split("\n")[: line - 1])
    match = re.compile(pattern).search(text, start)
    if match is None:
        return None
    span = Span.at_offset("", text, match.start())
    return span.line, span.column


def _with_span(error: DqsqlError, path: str, text: str) -> DqsqlError:
    """Add the template's line to an error that one of dqsql's own functions raised."""
    if error.span is None:
        needle = error.needle if isinstance(error, _CallError) else None
        error.span = _place(path, text, _traceback_line(error, path) or 1, needle)
    return error


def _place(path: str, text: str, line: int, pattern: str | None = None) -> Span:
    """The first match of a pattern at or below a line, else the line."""
    place = locate(text, pattern, line) if pattern else None
    line, column = place or (line, 1)
    lines = text.split("\n")
    return Span(path, line, column, lines[line - 1].strip() if 0 < line <= len(lines) else "")


@contextmanager
def _syntax_errors(path: str, text: str) -> Iterator[None]:
    """Raise what is wrong with a template's syntax as a JinjaError at its place."""
    try:
        yield
    except jinja2.TemplateSyntaxError as error:
        raise _syntax_error(error, path, text) from error
    except SyntaxError as error:
        raise _python_error(error, path, text) from error
    except RecursionError as error:
        message = "Jinja syntax: an expression is nested too deep"
        raise JinjaError(message, span=Span(path)) from error


def _syntax_error(error: jinja2.TemplateSyntaxError, path: str, text: str) -> JinjaError:
    span = _place(path, text, error.lineno or 1)
    lines = text.split("\n")
    if span.text:
        span = replace(span, column=max(1, lines[span.line - 1].find("{") + 1))
    hint = None
    if error.message in ("unexpected '}'", "unexpected end of template"):
        hint = "an expression is not closed: write {{ .. }}"
    return JinjaError(f"Jinja syntax: {error.message}", span=span, hint=hint)


def _python_error(error: SyntaxError, path: str, text: str) -> JinjaError:
    """For what Jinja takes and Python does not, to which it is compiled: a keyword given twice."""
    name = re.escape(error.msg.rpartition(" ")[2])
    given = [m.start() for m in re.finditer(rf"(?<![\w.]){name}\s*=(?!=)", text)]
    span = Span.at_offset(path, text, given[1] if len(given) > 1 else 0)
    shown = text.split("\n")[span.line - 1].strip()
    return JinjaError(f"Jinja syntax: {error.msg}", span=replace(span, text=shown))


_UNDEFINED = re.compile(r"^'([^']+)' is undefined$")
# Python names the class of a function that got other arguments than it takes.
_CLASS = re.compile(r"^\w+\.(?=\w+\(\))")
# Names that dbt gives templates of its own, or packages do.
_OF_DBT = frozenset(
    {
        "adapter",
        "api",
        "builtins",
        "dbt",
        "dbt_utils",
        "dbt_expectations",
        "dbt_version",
        "exceptions",
    }
    | {"execute", "flags", "graph", "invocation_id", "log", "model", "modules", "run_query"}
    | {"run_started_at", "schema", "selected_resources", "statement", "this", "thread_id"}
)
# Functions of models that SQL has, too.
_OF_MODELS = ("ref", "source")
_NO_ATTRIBUTE = re.compile(r"has no attribute '([^']+)'$")


def _near_name(name: str, known: Mapping[str, object]) -> str:
    """A hint with the nearest name that a template knows; a variable is not known by its name."""
    variables = known.get("var")
    names = variables.known if isinstance(variables, Variables) else {}
    if name in names:
        return f"write var('{name}')"
    if name in _OF_MODELS:
        return f"write it outside of the braces, as SQL: {name}('..')"
    if name in _OF_DBT:
        return (
            f"{name} is of dbt alone: here are var, env_var, source, ref, config and target;"
            " put what it gives into a variable, or write it in SQL"
        )
    near = nearest(name, known) or nearest(name, names, label="did you mean the variable")
    return near or f"write var('{name}') to read a variable, or put a text into quotes"


def _locate_fault(
    error: Exception, path: str, text: str, line: int, known: Mapping[str, object]
) -> tuple[Span, str | None]:
    message = str(error)
    undefined = _UNDEFINED.match(message)
    name = undefined or _NO_ATTRIBUTE.search(message)
    hint = _near_name(undefined.group(1), known) if undefined else None
    return _place(path, text, line, rf"\b{re.escape(name.group(1))}\b" if name else None), hint


def _template_error(
    error: Exception, path: str, text: str, known: Mapping[str, object]
) -> JinjaError:
    line = _traceback_line(error, path) or 1
    span, hint = _locate_fault(error, path, text, line, known)
    message = _CLASS.sub("", str(error)) or "the template needs more memory than there is"
    return JinjaError(f"Jinja: {message}", span=span, hint=hint)


class _CallError(JinjaError):
    """An error of a template function; `needle` is a pattern that finds the call in the text."""

    def __init__(self, message: str, *, hint: str | None, needle: str) -> None:
        super().__init__(message, hint=hint)
        self.needle = needle


def call_error(function: str, argument: str, message: str, hint: str | None = None) -> JinjaError:
    """An error about `function('argument')` whose place in the template is found afterwards."""
    needle = rf"\b{re.escape(function)}\s*\(\s*(['\"]){re.escape(argument)}\1"
    return _CallError(message, hint=hint, needle=needle)


_MISSING = object()


@dataclass(frozen=True, slots=True)
class Variables:
    """`var('name', default)` for templates; an unknown name without default is a JinjaError."""

    known: Mapping[str, Any]

    def __call__(self, name: str, default: Any = _MISSING) -> Any:
        """The value of a variable."""
        if name in self.known:
            return self.known[name]
        if default is not _MISSING:
            return default
        hint = nearest(name, self.known) or "set it under `vars:` in dqsql_project.yml or by --vars"
        raise call_error("var", name, f"the variable {name!r} is not defined", hint)


def env_var(name: str, default: Any = _MISSING) -> Any:
    """`env_var('NAME', default)` for templates; unset without default is a JinjaError.

    So is a secret: as in dbt, only a profile may read it.
    """
    if name.startswith(PREFIXES):
        message = f"{name!r} is a secret, which only profiles.yml may read"
        raise call_error("env_var", name, message, "name the variable without that prefix")
    return secret_env_var(name, default)


def secret_env_var(name: str, default: Any = _MISSING) -> Any:
    """`env_var` for the templates of profiles, which may read secrets, too."""
    if name in os.environ:
        return os.environ[name]
    if default is not _MISSING:
        return default
    message = f"the environment variable {name!r} is not set"
    raise call_error("env_var", name, message, "set it, or give a default")


def base_context(
    variables: Mapping[str, Any], target: Target | None, *, secrets: bool = False
) -> dict[str, object]:
    """`var`, `env_var` (with `secrets` of any variable) and, when there is one, `target`."""
    reader = secret_env_var if secrets else env_var
    context: dict[str, object] = {"var": Variables(variables), "env_var": reader}
    if target is not None:
        context["target"] = {
            "name": target.name,
            "profile_name": target.profile,
            "type": "spark",
            "method": target.method,
            "schema": target.schema,
            "threads": target.threads or 1,
        }
    return context
