"""Compile kernels, and detect stale entries of their cache.

Compiled code contains the functions it calls and every constant it names, from all their files.
numba's own cache checks only the file of the caller. Kernels therefore belong to a *family*, which
knows all their source files: an edit of any of them recompiles every kernel.

A kernel that only other kernels call is part of their machine code, and needs none of its own.
numba optimises and translates each called function separately, and again in every caller, which is
half of the compile time of kernels. Here each kernel has a twin that other kernels call. The twin
is typed and lowered once; it is linked, optimised and translated only within the kernels that
Python calls, and only those are cached. This depends on how numba links, so it is done only for
known versions; with any other version numba compiles as usual.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numba
from llvmlite import binding
from numba import njit, types
from numba.core import cgutils
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import CPUCodeLibrary
from numba.core.cpu import CPUContext
from numba.core.runtime.nrt import rtsys
from numba.extending import intrinsic
from numba.np import linalg

# Errors of reading code that is truncated or names moved classes.
_UNREADABLE = (
    pickle.UnpicklingError,
    ImportError,
    AttributeError,
    EOFError,
    IndexError,
    TypeError,
    ValueError,
)

#: Options of every kernel: none is called by its address from C.
_OPTIONS: Mapping[str, Any] = {"no_cfunc_wrapper": True}

#: Options of the twin that kernels call.
_INNER: Mapping[str, Any] = {"no_cpython_wrapper": True}

#: Whether this version of numba is known to link as expected.
_LINKS_LATER = numba.__version__.startswith("0.68.")

_Kernel = TypeVar("_Kernel", bound=Callable[..., object])


class KernelFamily:
    """Kernels with the same options and the same source files.

    Parameters
    ----------
    sources
        Source files of the kernels: folders with all their files, and modules with constants or
        functions. This file and the kernel's own are always included.
    options
        Options of `numba.njit` for every kernel; not `cache`.
    """

    def __init__(self, *sources: Path | ModuleType, **options: Any) -> None:
        self.files = frozenset(path for source in sources for path in _files_of(source))
        self._options: Mapping[str, Any] = options
        self._cache: Any = _cache_class(self)

    def stamp(self, own: str) -> bytes:
        """Return the digest of all source files of a kernel in the file `own`."""
        return _digest(self.files | {Path(__file__), Path(own)})

    def kernel(self, function: _Kernel) -> _Kernel:
        """Compile a function with the family's options."""
        return self._compiled(function, {})

    def like(self, **options: Any) -> Callable[[_Kernel], _Kernel]:
        """Return the same decorator with more options."""
        return lambda function: self._compiled(function, options)

    def _compiled(self, function: _Kernel, more: Mapping[str, Any]) -> _Kernel:
        decorate: Any = njit
        options = {**_OPTIONS, **self._options, **more}
        dispatcher: Any = decorate(**options)(function)
        inner: Any = decorate(**{**options, **_INNER})(function) if _LINKS_LATER else dispatcher
        dispatcher.get_call_template = partial(_template, type(inner), inner)
        if _LINKS_LATER:
            dispatcher.get_overload = inner.get_overload
        dispatcher.inner = inner
        # The attribute in which `njit(cache=True)` stores its own cache.
        dispatcher._cache = self._cache(function)  # noqa: SLF001
        compiled: _Kernel = dispatcher
        return compiled


def _template(kind: Any, dispatcher: Any, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Return the typing of a call by another kernel, with integers as from Python.

    numba otherwise compiles a kernel again for every constant and integer width that a caller
    passes.
    """
    plain = {name: _as_from_python(value) for name, value in named.items()}
    return kind.get_call_template(dispatcher, [_as_from_python(one) for one in given], plain)


def _as_from_python(kind: Any) -> Any:
    whole: Any = types.Integer
    return types.int64 if isinstance(kind, whole) and kind.signed else kind


def _files_of(source: Path | ModuleType) -> list[Path]:
    return list(source.glob("*.py")) if isinstance(source, Path) else [Path(str(source.__file__))]


@cache
def _digest(files: frozenset[Path]) -> bytes:
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.digest()


def _cache_class(family: KernelFamily) -> type[FunctionCache]:
    """Return numba's cache class with the family's stamp, so that any change makes it stale."""

    def source_stamp(locator: Any) -> bytes:
        return family.stamp(locator._py_file)  # noqa: SLF001

    # numba has no public way to declare the dependencies of a cached kernel.
    locators = [
        type(locator.__name__, (locator,), {"get_source_stamp": source_stamp, "family": family})
        for locator in CompileResultCacheImpl._locator_classes  # noqa: SLF001
    ]
    members: dict[str, Any] = {"_locator_classes": locators}
    if _LINKS_LATER:
        members["reduce"] = _reduced
    found = type("_Found", (CompileResultCacheImpl,), members)
    return type("_Cache", (FunctionCache,), {"_impl_class": found, "load_overload": _load_readable})


def _reduced(_: Any, compiled: Any) -> Any:
    """Return the cached form of a kernel, without the second copy of its code for callers.

    No kernel links that copy, as all call the twin; reading it would take longer than the rest.
    """
    library, name = compiled.library, compiled.fndesc.llvm_cpython_wrapper_name
    stub = f'define void @"{name}"() {{\n  ret void\n}}\n'
    library._shared_module = binding.parse_assembly(stub)  # noqa: SLF001
    return compiled._reduce()  # noqa: SLF001


def _load_readable(cache: Any, signature: Any, context: Any) -> Any:
    """Return the compiled code of a signature; None, with an emptied cache, if it is unreadable.

    numba reads a whole index, with the classes that it names, before it checks the stamp.
    """
    try:
        found = _found(cache, signature, context)
    except _UNREADABLE:
        cache.flush()
        found = None
    if found is None:
        context.refresh()
    return found


def _found(cache: Any, signature: Any, context: Any) -> Any:
    """Return the cached code or None, without loading the compiler.

    numba's own method loads all of its compiler first, which takes half a second per process.
    """
    rtsys.initialize(context)
    key = cache._index_key(signature, context.codegen())  # noqa: SLF001
    data = cache._cache_file.load(key)  # noqa: SLF001
    return None if data is None else cache._impl.rebuild(context, data)  # noqa: SLF001


def _link_later(library: Any, called: Any) -> None:
    """Record a library that another calls, without optimising or translating it."""
    library._linking_libraries.append(called)  # noqa: SLF001


def _all_linked(library: Any, seen: dict[int, Any]) -> dict[int, Any]:
    """Return, by identity, all libraries that a library calls, directly or not.

    A finalized library contains those it calls.
    """
    for one in library._linking_libraries:  # noqa: SLF001
        if id(one) not in seen:
            seen[id(one)] = one
            if not one._finalized:  # noqa: SLF001
                _all_linked(one, seen)
    return seen


def _finalize(library: Any) -> None:
    """Link, optimise and translate a library with all that it calls, directly or not.

    numba's own method links only direct calls, each with all that it calls itself. Linked code is
    private to the library: numba numbers its own parts per process, so code compiled by two
    processes has the same name for different parts.
    """
    library._raise_if_finalized()  # noqa: SLF001
    for one in _all_linked(library, {id(library): library}).values():
        if one is not library:
            library._reload_init.update(one._reload_init)  # noqa: SLF001
            library._final_module.link_in(  # noqa: SLF001
                one._get_module_for_linking(),  # noqa: SLF001
                preserve=True,
            )
    for function in library._final_module.functions:  # noqa: SLF001
        if not function.is_declaration and function.linkage == binding.Linkage.linkonce_odr:
            function.linkage = "internal"
    library._optimize_final_module()  # noqa: SLF001
    library._final_module.verify()  # noqa: SLF001
    library._finalize_final_module()  # noqa: SLF001
    library._shared_module = None  # noqa: SLF001


def _module_to_link(library: Any) -> Any:
    """Return a library's code with linkage that allows definitions in several libraries."""
    if library._shared_module is None:  # noqa: SLF001
        module = library._final_module.clone()  # noqa: SLF001
        for function in module.functions:
            if not function.is_declaration and function.linkage == binding.Linkage.external:
                function.linkage = "linkonce_odr"
        library._shared_module = module  # noqa: SLF001
    return library._shared_module  # noqa: SLF001


def _executable(context: Any, library: Any, described: Any, environment: Any) -> Any:
    """Return the code that Python calls; for other code only a key, without translating it.

    numba uses the key to look up calls by other kernels.
    """
    name = described.llvm_cpython_wrapper_name
    if library._finalized or any(one.name == name for one in library._final_module.functions):  # noqa: SLF001
        return _translated(context, library, described, environment)
    return [].append  # unique, and a built-in function, as numba requires


_translated: Any = CPUContext.get_executable
for _owner, _name, _ours in (
    (CPUContext, "get_executable", _executable),
    (CPUCodeLibrary, "add_linking_library", _link_later),
    (CPUCodeLibrary, "finalize", _finalize),
    (CPUCodeLibrary, "_get_module_for_linking", _module_to_link),
):
    if _LINKS_LATER:
        setattr(_owner, _name, _ours)


def _refuse_blas() -> None:
    raise ImportError("kernels call no linear algebra")


# numba would load all of scipy.linalg to check whether it exists.
linalg.ensure_blas = _refuse_blas


def _stripped(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return a value in which arrays have no owner."""
    if isinstance(kind, types.BaseTuple):
        kinds: Any = kind
        unpack: Any = cgutils.unpack_tuple
        items = zip(kinds.types, unpack(builder, value, len(kinds.types)), strict=True)
        parts = [_stripped(context, builder, *item) for item in items]
        return context.make_tuple(builder, kind, parts)
    if not isinstance(kind, types.Array):
        return value
    view = context.make_array(kind)(context, builder, value)
    view.meminfo = view.meminfo.type(None)  # a null pointer
    view.parent = view.parent.type(None)
    return view._getvalue()  # noqa: SLF001


def _without_owner(typing: Any, value: Any) -> Any:
    """Typing and code of `borrowed`, as numba's intrinsics are given."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _stripped(context, builder, signature.args[0], values[0])

    return value(value), generate


borrowed: Any = intrinsic(_without_owner)
"""Return an array, or a tuple of arrays, without owners: the caller of the kernel keeps them alive.

Owned arrays cost an atomic reference count per array at each inner call: about as much as
placing a small atom.
"""
