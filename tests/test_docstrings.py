"""Every public module, class, function, method and property says what it is for."""

import importlib
import inspect
import pkgutil

import pytest

import pacbayes

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(pacbayes.__path__, "pacbayes.")
    if not module.name.rpartition(".")[2].startswith(("_", "libengine"))
)


def documented(holder, name):
    """Return whether a name has a docstring, of its own or of the method that it overrides."""
    return bool((inspect.getdoc(getattr(holder, name)) or "").strip())


def members(cls):
    kinds = (staticmethod, classmethod, property)
    fields = vars(cls).get("__annotations__", {})  # whose defaults may be functions
    for name, value in vars(cls).items():
        callable_ = inspect.isfunction(value) or isinstance(value, kinds)
        if callable_ and not name.startswith("_") and name not in fields:
            yield name


@pytest.mark.parametrize("name", MODULES)
def test_public_names_have_docstrings(name):
    module = importlib.import_module(name)
    missing = [] if module.__doc__ else [name]
    for public, value in vars(module).items():
        own = getattr(value, "__module__", None) == name and not public.startswith("_")
        if own and (inspect.isfunction(value) or inspect.isclass(value)):
            missing += [] if (value.__doc__ or "").strip() else [public]
        if own and inspect.isclass(value):
            missing += [f"{public}.{m}" for m in members(value) if not documented(value, m)]
    assert missing == []


def test_what_the_package_lists_has_docstrings():
    for name in pacbayes.__all__:
        public = getattr(pacbayes, name)
        assert isinstance(public, str) or documented(pacbayes, name), name
