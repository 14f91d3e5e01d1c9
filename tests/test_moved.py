"""Old names of modules lead to the modules themselves, and say where they are now."""

import subprocess
import sys
from importlib import import_module

import pytest

from pacbayes.moved import APART, MOVED, new_name


def test_every_new_name_is_a_module_that_is_there():
    for new in MOVED.values():
        import_module(f"pacbayes.{new}")


@pytest.mark.parametrize("old", MOVED)
def test_an_old_name_leads_to_the_same_objects(old):
    sys.modules.pop(f"pacbayes.{old}", None)
    with pytest.warns(DeprecationWarning, match=f"pacbayes.{old} is now pacbayes.{MOVED[old]}"):
        moved = import_module(f"pacbayes.{old}")
    new = import_module(f"pacbayes.{MOVED[old]}")
    for name in getattr(new, "__all__", []):
        assert getattr(moved, name) is getattr(new, name)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("old", APART)
def test_a_name_that_went_elsewhere_is_found_there(old):
    module, _, name = old.rpartition(".")
    there = import_module(f"pacbayes.{APART[old]}")
    assert getattr(import_module(f"pacbayes.{module}"), name) is getattr(there, name)


def test_modules_inside_a_moved_package_are_found():
    code = "from pacbayes.certified.classifier import CertifiedClassifier as old\n"
    code += "from pacbayes.models.classifier import CertifiedClassifier as new; assert old is new"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code])
    assert done.returncode == 0


def test_a_function_with_the_name_of_a_moved_module_is_still_called():
    code = "import pacbayes.bounds.bernstein, pacbayes.bounds.split_kl\n"
    code += "from pacbayes.bounds.bernstein import bernstein as same; from pacbayes import bounds\n"
    code += "assert bounds.bernstein(0.1, 0.1, 50, 0.05) == same(0.1, 0.1, 50, 0.05)"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code])
    assert done.returncode == 0


def test_other_names_have_not_moved():
    assert new_name("pacbayes.bounds") is None
    with pytest.raises(ModuleNotFoundError, match=r"pacbayes\.nothing"):
        import_module("pacbayes.nothing")
